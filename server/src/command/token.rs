//! `duly token`: create, list, revoke, at the admin listener of a server.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

use super::error::{CommandError, Result};
use super::http::HttpClient;
use super::output::{Output, confirm, plain};
use super::values;

#[derive(Args, Debug)]
pub(crate) struct TokenArguments {
    /// The admin listener of the server
    #[arg(
        long,
        value_name = "URL",
        global = true,
        default_value = "http://127.0.0.1:7778"
    )]
    admin: String,
    /// The account, `name:password`, if the server has accounts
    #[arg(
        long,
        value_name = "NAME:PASSWORD",
        global = true,
        env = "DULY_ACCOUNT",
        hide_env_values = true
    )]
    account: Option<String>,
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Creates a token of a namespace, and shows it this once
    Create {
        /// The namespace
        namespace: String,
        /// What it is for [default: the namespace]
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// Its rights, of publish, consume and admin [default: all]
        #[arg(long, value_name = "SCOPES", value_delimiter = ',')]
        scopes: Vec<String>,
        /// Its queues; `*` stands for any text [default: all]
        #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
        queues: Vec<String>,
        /// When it expires, from now [default: never]
        #[arg(long, value_name = "DURATION", value_parser = values::span)]
        expires_in: Option<std::time::Duration>,
    },
    /// Lists the tokens of a namespace, by handle or text
    List {
        /// The namespace
        namespace: String,
    },
    /// Revokes a token, on every server at once
    Revoke {
        /// The namespace
        namespace: String,
        /// The token, or its handle, `sha256~...`
        token: String,
        /// Does not ask
        #[arg(long)]
        yes: bool,
    },
}

pub(crate) async fn run(output: Output, arguments: TokenArguments) -> Result<()> {
    let account = arguments.account.map(|account| {
        if account.contains(':') {
            Ok(format!("Basic {}", STANDARD.encode(account)))
        } else {
            Err(CommandError::usage("the account is written name:password"))
        }
    });
    let http = HttpClient::new(&arguments.admin, account.transpose()?)?;
    match arguments.command {
        TokenCommand::Create {
            namespace,
            description,
            scopes,
            queues,
            expires_in,
        } => {
            let description = description.unwrap_or_else(|| namespace.clone());
            let mut query = vec![("description", description)];
            if !scopes.is_empty() {
                query.push(("scopes", scopes.join(",")));
            }
            if !queues.is_empty() {
                query.push(("queues", queues.join(",")));
            }
            if let Some(span) = expires_in {
                // At least a second, as a zero would mean none.
                query.push(("expires_in", span.as_secs().max(1).to_string()));
            }
            let path = ["token", &namespace];
            let created = http.send(Method::POST, &path, &query, None).await?;
            let token = created["token"].as_str();
            let token =
                token.ok_or_else(|| CommandError::failed("the server's response has no token"))?;
            output.value(&json!({ "token": token }), token)
        }
        TokenCommand::List { namespace } => {
            let path = ["token", &namespace];
            let listed = http.send(Method::GET, &path, &[], None).await?;
            let tokens: BTreeMap<String, String> = http.read(listed["tokens"].clone())?;
            let rows: Vec<_> = tokens
                .iter()
                .map(|(token, description)| vec![token.clone(), plain(description)])
                .collect();
            let items: Vec<_> = tokens
                .iter()
                .map(|(token, description)| json!({"token": token, "description": description}))
                .collect();
            if output.json {
                output.json(&items)
            } else {
                output.table(&["TOKEN", "DESCRIPTION"], &rows)
            }
        }
        TokenCommand::Revoke {
            namespace,
            token,
            yes,
        } => {
            confirm(yes, &format!("Revoke this token of {namespace}?"))?;
            let path = ["token", &namespace, &token];
            if !http.remove(&path).await? {
                return Err(CommandError::not_found(format!(
                    "namespace {namespace} has no such token; `duly token list` shows those that \
                     it has"
                )));
            }
            output.value(&json!({"revoked": true}), "the token is revoked")
        }
    }
}
