//! A connection to every node of a cluster, as the package keeps it.

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo};
use redis::io::tcp::TcpSettings;
use redis::{Cmd, IntoConnectionInfo, RedisResult, Value};
use tokio::time::timeout;

use super::{Pushes, certificates, late, name, settings, tcp};
use crate::store::redis::options::LinkOptions;
use crate::store::redis::url::{Address, Target};

/// How often a cluster's client follows redirections and waits for one call. Together the waits
/// stay below half a second, so an answer is known long before a call's time is over.
const CLUSTER_RETRIES: u32 = 6;
const CLUSTER_WAIT_MS: std::ops::RangeInclusive<u64> = 10..=200;

/// Connects to as many nodes as there are, of which `nodes` are known.
pub(super) async fn connect(
    target: &Target,
    options: &LinkOptions,
    nodes: &[Address],
    pushes: Pushes,
) -> RedisResult<ClusterConnection> {
    let connecting = async {
        let client = client(target, options, nodes, pushes)?;
        let mut connection = client.get_async_connection().await?;
        // Only a help for operators, and a user may be allowed everything but this.
        let _ = ask_everywhere(&mut connection, name(options)).await;
        Ok(connection)
    };
    // Several nodes may have to be tried before one answers.
    let patience = options.connect_timeout * 2;
    timeout(patience, connecting)
        .await
        .unwrap_or_else(|_| Err(late()))
}

/// Sends a command to every node; the answers, errors among them, are in no order.
pub(super) async fn ask_everywhere(
    connection: &mut ClusterConnection,
    command: Cmd,
) -> RedisResult<Vec<Value>> {
    let everywhere = RoutingInfo::MultiNode((
        MultipleNodeRoutingInfo::AllNodes,
        Some(ResponsePolicy::Special),
    ));
    match connection.route_command(command, everywhere).await? {
        Value::Map(answers) => Ok(answers.into_iter().map(|(_, answer)| answer).collect()),
        answer => Ok(vec![answer]),
    }
}

fn client(
    target: &Target,
    options: &LinkOptions,
    nodes: &[Address],
    pushes: Pushes,
) -> RedisResult<ClusterClient> {
    let infos = nodes
        .iter()
        .map(|node| {
            let info = tcp(target, node).into_connection_info()?;
            Ok(info.set_redis_settings(settings(&target.login, 0)))
        })
        .collect::<RedisResult<Vec<_>>>()?;
    let mut builder = ClusterClientBuilder::new(infos)
        .retries(CLUSTER_RETRIES)
        .min_retry_wait(*CLUSTER_WAIT_MS.start())
        .max_retry_wait(*CLUSTER_WAIT_MS.end())
        .connection_timeout(options.connect_timeout)
        // One node that hangs is noticed while the call still has time for another.
        .response_timeout(options.attempt_timeout())
        .overall_response_timeout(None)
        .tcp_settings(TcpSettings::default().set_nodelay(true))
        .push_sender(pushes);
    if let Some(certificates) = certificates(target)? {
        builder = builder.certs(certificates);
    }
    builder.build()
}
