//! Statistics of librdkafka: the states of the brokers.

use std::collections::HashMap;

use serde::Deserialize;

use crate::kafka_state::BrokerFigures;

/// Statistics of a client. Other fields are left out.
#[derive(Debug, Deserialize)]
pub(crate) struct ClientStatistics {
    /// Connections by name.
    brokers: HashMap<String, ConnectionStatistics>,
}

/// Statistics of a connection to a broker.
#[derive(Debug, Deserialize)]
struct ConnectionStatistics {
    /// Number of the broker; -1 before the first contact.
    nodeid: i32,
    state: String,
    /// Attempts to connect. After a lost connection, a broker that is not needed has the state of a new one.
    connects: u64,
    /// Requests that were sent again.
    txretries: u64,
}

impl ClientStatistics {
    /// Counts the brokers, and the requests of this client that were sent again. One broker can have several connections, such as that to the coordinator of transactions.
    pub(crate) fn broker_figures(&self) -> BrokerFigures {
        let mut connected_by_node: HashMap<i32, bool> = HashMap::new();
        for connection in self.brokers.values() {
            let is_connected = matches!(&*connection.state, "UP" | "UPDATE" | "REAUTH");
            if connection.nodeid >= 0 && (connection.connects > 0 || connection.state != "INIT") {
                *connected_by_node.entry(connection.nodeid).or_default() |= is_connected;
            }
        }
        let connected = connected_by_node.values().filter(|is_connected| **is_connected).count() as u64;
        let retries = self.brokers.values().map(|connection| connection.txretries).sum();
        BrokerFigures { connected, down: connected_by_node.len() as u64 - connected, retries }
    }
}

#[cfg(test)]
mod tests {
    use super::{BrokerFigures, ClientStatistics};

    #[test]
    fn brokers_are_counted_once() {
        let check = |connections: &[(i32, u64, &str)], connected, down| {
            let brokers: Vec<String> = (0..)
                .zip(connections)
                .map(|(index, (node, connects, state))| {
                    format!(
                        r#""{index}":{{"nodeid":{node},"state":"{state}","connects":{connects},"txretries":2,"tx":1}}"#
                    )
                })
                .collect();
            let text = format!(r#"{{"name":"x","brokers":{{{}}}}}"#, brokers.join(","));
            let retries = 2 * connections.len() as u64;
            let counts = serde_json::from_str::<ClientStatistics>(&text).unwrap().broker_figures();
            assert_eq!(counts, BrokerFigures { connected, down, retries }, "{connections:?}");
        };
        check(&[], 0, 0);
        check(&[(-1, 1, "UP"), (1, 1, "UP"), (2, 1, "DOWN"), (3, 0, "INIT"), (1, 1, "UP")], 1, 1);
        check(&[(1, 2, "DOWN"), (1, 1, "UPDATE")], 1, 0);
        check(&[(1, 1, "CONNECT"), (-1, 1, "DOWN")], 0, 1);
        check(&[(1, 1, "INIT")], 0, 1);
    }
}
