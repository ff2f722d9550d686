//! An editor without a screen: the Language Server Protocol over standard
//! input and output.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::install::language_server;
use super::support::PROJECT;

/// How long the server may take to answer.
const ANSWER: Duration = Duration::from_secs(60);
/// Where the cursor is in a text.
const CURSOR: char = '▮';

/// A running language server; dropping it ends its process.
pub struct Editor {
    server: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    requests: u64,
    new_files: u64,
}

/// A text that is open, and where its cursor is.
pub struct Open {
    uri: String,
    position: Value,
    /// What the server complains about.
    pub complaints: Vec<Complaint>,
}

/// A complaint at a line, counted from 1.
#[derive(Debug, PartialEq)]
pub struct Complaint {
    pub line: u64,
    pub message: String,
}

/// A proposal for the place of the cursor.
#[derive(Debug)]
pub struct Proposal {
    pub label: String,
    pub documentation: String,
    pub inserts: String,
}

impl Editor {
    /// Starts the language server, as an editor does that uses no schema store.
    pub fn start() -> Self {
        let installed = language_server();
        let mut server = Command::new(&installed.node)
            .arg(&installed.script)
            .arg("--stdio")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = server.stdin.take().unwrap();
        let messages = messages_of(server.stdout.take().unwrap());
        let mut editor = Self { server, input, messages, requests: 0, new_files: 0 };
        let markdown = ["markdown"];
        editor.request(
            "initialize",
            &json!({
                "processId": std::process::id(),
                "rootUri": format!("file://{PROJECT}"),
                "capabilities": {
                    "workspace": {"configuration": true},
                    "textDocument": {
                        "completion": {
                            "completionItem": {"snippetSupport": true, "documentationFormat": markdown},
                        },
                        "hover": {"contentFormat": markdown},
                    },
                },
            }),
        );
        editor.send(&json!({"method": "initialized", "params": {}}));
        editor
    }

    /// Opens a new plan beside those of the project.
    pub fn write(&mut self, text: &str) -> Open {
        self.new_files += 1;
        self.open(&format!("plans/new-{}.yaml", self.new_files), text)
    }

    /// Opens a text under a path of the project and waits for the complaints.
    pub fn open(&mut self, path: &str, text: &str) -> Open {
        let (text, position) = without_cursor(text);
        let uri = format!("file://{PROJECT}/{path}");
        let document = json!({"uri": uri, "languageId": "yaml", "version": 1, "text": text});
        self.send(&json!({"method": "textDocument/didOpen", "params": {"textDocument": document}}));
        let published = self.receive("textDocument/publishDiagnostics", |message| {
            message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == uri.as_str()
        });
        let diagnostics = published["params"]["diagnostics"].as_array().unwrap();
        let complaint = |diagnostic: &Value| Complaint {
            line: diagnostic["range"]["start"]["line"].as_u64().unwrap() + 1,
            message: diagnostic["message"].as_str().unwrap().to_owned(),
        };
        Open { complaints: diagnostics.iter().map(complaint).collect(), uri, position }
    }

    /// What the editor offers at the cursor.
    pub fn proposals(&mut self, open: &Open) -> Vec<Proposal> {
        let answer = self.at_cursor("textDocument/completion", open);
        let proposal = |item: &Value| Proposal {
            label: text_of(&item["label"]),
            documentation: text_of(&item["documentation"]),
            inserts: text_of(item.pointer("/textEdit/newText").unwrap_or(&item["insertText"])),
        };
        answer["items"].as_array().unwrap().iter().map(proposal).collect()
    }

    /// What the editor shows for the word under the cursor.
    pub fn hover(&mut self, open: &Open) -> String {
        text_of(&self.at_cursor("textDocument/hover", open)["contents"])
    }

    fn at_cursor(&mut self, method: &str, open: &Open) -> Value {
        let parameters = json!({"textDocument": {"uri": open.uri}, "position": open.position});
        self.request(method, &parameters)
    }

    fn request(&mut self, method: &str, parameters: &Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({"id": id, "method": method, "params": parameters}));
        let answer =
            self.receive(method, |message| message.get("method").is_none() && message["id"] == json!(id));
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Waits for a message; meanwhile the server's own questions are answered.
    fn receive(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let left = ANSWER.saturating_sub(begun.elapsed());
            match self.messages.recv_timeout(left) {
                Ok(message) if is_it(&message) => return message,
                Ok(message) => self.answer(&message),
                Err(RecvTimeoutError::Timeout) => panic!("no {what} within {} s", ANSWER.as_secs()),
                Err(RecvTimeoutError::Disconnected) => panic!("the server ended before {what}"),
            }
        }
    }

    fn answer(&mut self, message: &Value) {
        if message.get("method").is_none() || message.get("id").is_none() {
            return;
        }
        let asked = message["params"]["items"].as_array().into_iter().flatten();
        let settings = asked.map(|item| match item["section"].as_str() {
            Some("yaml") => json!({
                "validate": true, "hover": true, "completion": true, "schemaStore": {"enable": false},
            }),
            _ => Value::Null,
        });
        let result = match message["method"].as_str() {
            Some("workspace/configuration") => settings.collect(),
            _ => Value::Null,
        };
        self.send(&json!({"id": message["id"], "result": result}));
    }

    fn send(&mut self, message: &Value) {
        let mut message = message.clone();
        message["jsonrpc"] = json!("2.0");
        let body = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        self.input.flush().unwrap();
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The server's messages, read until its end.
fn messages_of(output: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        while let Some(message) = read_message(&mut output) {
            if sender.send(message).is_err() {
                break;
            }
        }
    });
    receiver
}

fn read_message(output: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("Content-Length") => {
                length = value.trim().parse().ok()?;
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    output.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// The text without its cursor, and where that was.
fn without_cursor(text: &str) -> (String, Value) {
    let (before, after) = text.split_once(CURSOR).unwrap_or((text, ""));
    let line = before.matches('\n').count();
    let character = before.rsplit('\n').next().unwrap().encode_utf16().count();
    (format!("{before}{after}"), json!({"line": line, "character": character}))
}

/// Text, or the text of a markup.
fn text_of(value: &Value) -> String {
    value.as_str().or(value["value"].as_str()).unwrap_or_default().to_owned()
}
