//! The `orchestrate` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(orchestrate::process::child::SUBCOMMAND) {
        return orchestrate::process::supervisor::main();
    }
    ExitCode::from(orchestrate::cli::main())
}
