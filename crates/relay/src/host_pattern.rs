//! Hosts from which an account may log in.

use std::cmp::Reverse;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use sql::WildcardPattern;

/// Hosts from which an account may log in: addresses only, because a relay looks up no names.
///
/// `%` is any host, `localhost` is this machine, and `192.0.2.7` or `2001:db8::7` is one address. `10.0.0.0/8` or
/// `10.0.0.0/255.0.0.0` is a network, and `192.0.2._` or `10.1.%` is a pattern as in `LIKE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    text: String,
    hosts: MatchingHosts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MatchingHosts {
    Any,
    Loopback,
    Address(IpAddr),
    Network { first: u128, prefix: u32, family: AddressFamily },
    Pattern(WildcardPattern),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressFamily {
    V4,
    V6,
}

/// Order in which MySQL tries the accounts of a name, smallest first: addresses before networks, networks before
/// patterns, and longer prefixes before shorter ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HostOrder {
    Address,
    Network { prefix: Reverse<u32> },
    Pattern { wildcard_at: Reverse<usize> },
    Any,
}

/// Error: the text is not a [`HostPattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a host: expected an address, a network such as 10.0.0.0/8, a pattern of addresses such as 10.0.%, \
     localhost, or % for any host; names are not looked up"
)]
pub struct HostPatternError {
    text: String,
}

impl HostPattern {
    /// Returns the pattern that matches all hosts.
    pub fn any() -> Self {
        Self { text: "%".to_owned(), hosts: MatchingHosts::Any }
    }

    /// Returns true if a client with this address may log in. `None` stands for a client on this machine without an
    /// address.
    pub fn matches(&self, address: Option<IpAddr>) -> bool {
        let Some(address) = address.map(|address| address.to_canonical()) else {
            return matches!(self.hosts, MatchingHosts::Any | MatchingHosts::Loopback);
        };
        match &self.hosts {
            MatchingHosts::Any => true,
            MatchingHosts::Loopback => address.is_loopback(),
            MatchingHosts::Address(expected) => *expected == address,
            MatchingHosts::Network { first, prefix, family } => {
                let (bits, found) = address_bits(address);
                found == *family && bits & prefix_mask(*prefix, found) == *first
            }
            MatchingHosts::Pattern(pattern) => pattern.matches(address.to_string().as_bytes()),
        }
    }

    pub(crate) fn order(&self) -> HostOrder {
        match &self.hosts {
            MatchingHosts::Any => HostOrder::Any,
            MatchingHosts::Loopback | MatchingHosts::Address(_) => HostOrder::Address,
            MatchingHosts::Network { prefix, .. } => HostOrder::Network { prefix: Reverse(*prefix) },
            MatchingHosts::Pattern(_) => {
                let wildcard_at = self.text.find(['%', '_']).unwrap_or(self.text.len());
                HostOrder::Pattern { wildcard_at: Reverse(wildcard_at) }
            }
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hosts = parse_hosts(text).ok_or_else(|| HostPatternError { text: text.to_owned() })?;
        Ok(Self { text: text.to_owned(), hosts })
    }
}

fn parse_hosts(text: &str) -> Option<MatchingHosts> {
    if text == "%" {
        return Some(MatchingHosts::Any);
    }
    if text.eq_ignore_ascii_case("localhost") {
        return Some(MatchingHosts::Loopback);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(MatchingHosts::Address(address.to_canonical()));
    }
    if let Some((address, mask)) = text.split_once('/') {
        return parse_network(address.parse().ok()?, mask);
    }
    let is_of_an_address = |byte: u8| byte.is_ascii_hexdigit() || b".:%_".contains(&byte);
    let is_pattern = text.bytes().all(is_of_an_address) && text.contains(['%', '_']);
    is_pattern.then(|| MatchingHosts::Pattern(WildcardPattern::new(text.into())))
}

/// Parses the part after the slash: a number of bits, or a mask of an IPv4 network. The address must have no bits set
/// after the prefix, as in MySQL.
fn parse_network(address: IpAddr, mask: &str) -> Option<MatchingHosts> {
    let (first, family) = address_bits(address);
    let prefix = match (mask.parse::<Ipv4Addr>(), family) {
        (Ok(mask), AddressFamily::V4) => {
            let bits = u32::from(mask);
            (bits.leading_ones() + bits.trailing_zeros() >= u32::BITS).then(|| bits.leading_ones())?
        }
        _ => mask.parse().ok()?,
    };
    let is_network = prefix <= family.bits() && first & prefix_mask(prefix, family) == first;
    is_network.then_some(MatchingHosts::Network { first, prefix, family })
}

fn address_bits(address: IpAddr) -> (u128, AddressFamily) {
    match address {
        IpAddr::V4(address) => (u32::from(address).into(), AddressFamily::V4),
        IpAddr::V6(address) => (Ipv6Addr::to_bits(address), AddressFamily::V6),
    }
}

fn prefix_mask(prefix: u32, family: AddressFamily) -> u128 {
    let host_bits = family.bits() - prefix;
    u128::MAX.checked_shl(host_bits).unwrap_or(0)
}

impl AddressFamily {
    const fn bits(self) -> u32 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HostPattern;

    #[test]
    fn hosts_match() {
        let check = |pattern: &str, address: &str, expected: bool| {
            let found = pattern.parse::<HostPattern>().unwrap().matches(address.parse().ok());
            assert_eq!(found, expected, "{pattern} {address}");
        };
        check("%", "192.0.2.1", true);
        check("%", "", true);
        check("localhost", "127.0.0.1", true);
        check("localhost", "::1", true);
        check("localhost", "", true);
        check("localhost", "192.0.2.1", false);
        check("192.0.2.1", "192.0.2.1", true);
        check("192.0.2.1", "::ffff:192.0.2.1", true);
        check("192.0.2.1", "192.0.2.10", false);
        check("192.0.2.1", "", false);
        check("10.0.0.0/8", "10.255.1.2", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("10.0.0.0/255.0.0.0", "10.255.1.2", true);
        check("0.0.0.0/0", "10.255.1.2", true);
        check("0.0.0.0/0", "2001:db8::1", false);
        check("::/0", "2001:db8::1", true);
        check("2001:db8::/32", "2001:db8:1::7", true);
        check("2001:db8::/32", "2001:db9::7", false);
        check("10.1.%", "10.1.200.3", true);
        check("10.1.%", "10.11.2.3", false);
        check("192.0.2._", "192.0.2.7", true);
        check("192.0.2._", "192.0.2.17", false);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "db1", "%.example.com", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/255.0.255.0", "10.0.0"]
        {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn specific_hosts_are_first() {
        let mut hosts = ["%", "10.%", "10.1.%", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3"]
            .map(|text| text.parse::<HostPattern>().unwrap());
        hosts.sort_by_key(HostPattern::order);
        let texts = hosts.map(|host| host.to_string());
        assert_eq!(texts, ["10.1.2.3", "10.1.0.0/16", "10.0.0.0/8", "10.1.%", "10.%", "%"]);
    }
}
