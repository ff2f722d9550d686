//! The `orchestrate` binary.

use std::process::ExitCode;

/// Plans are many small values, which it keeps closer together and hands out
/// sooner than the one of the C library (`cargo bench --bench plan`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(orchestrate::process::child::SUBCOMMAND) {
        return orchestrate::process::supervisor::main();
    }
    ExitCode::from(orchestrate::cli::main())
}
