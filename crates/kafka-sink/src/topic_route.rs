//! Rules that send the records of several tables to one topic.

use std::str::FromStr;

use regex_lite::{Captures, Regex};

/// Rule `REGEX=TOPIC` for the topic of tables.
#[derive(Clone, Debug)]
pub struct TopicRoute {
    /// Matches whole names, `database.table`.
    tables: Regex,
    /// Name of the topic, without the prefix.
    topic: Vec<TopicNamePart>,
}

/// Part of a topic's name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TopicNamePart {
    Text(String),
    /// A group of the regular expression, by number.
    Group(usize),
}

/// Error of parsing a route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicRouteError {
    /// Not of the form REGEX=TOPIC.
    #[error("{0:?} is not a route: expected REGEX=TOPIC, such as 'shop\\.orders_[0-9]+=shop.orders'")]
    Malformed(String),
    /// A regular expression that cannot be parsed.
    #[error("{pattern:?} is not a regular expression: {reason}")]
    Pattern {
        /// Expression.
        pattern: String,
        /// Reason.
        reason: String,
    },
    /// A topic's name with a character that Kafka does not allow.
    #[error(
        "{topic:?} is not a topic of a route: expected letters, digits, `.`, `_`, `-`, and $1 to $9 for groups of the regular \
         expression"
    )]
    Topic {
        /// Name.
        topic: String,
    },
    /// A group that the regular expression does not have.
    #[error("the topic {topic:?} contains ${group}: the regular expression has no such group")]
    Group {
        /// Name of the topic.
        topic: String,
        /// Number.
        group: usize,
    },
}

impl TopicRoute {
    /// Returns the topic of a table, without the prefix; `None` if the rule does not match it.
    pub(crate) fn topic_of(&self, database: &str, table: &str) -> Option<String> {
        let name = format!("{database}.{table}");
        let groups = self.tables.captures(&name)?;
        Some(self.topic.iter().map(|part| part.text(&groups)).collect())
    }
}

impl TopicNamePart {
    fn text<'t>(&'t self, groups: &Captures<'t>) -> &'t str {
        match self {
            Self::Text(text) => text,
            Self::Group(number) => groups.get(*number).map_or("", |group| group.as_str()),
        }
    }
}

impl FromStr for TopicRoute {
    type Err = TopicRouteError;

    fn from_str(text: &str) -> Result<Self, TopicRouteError> {
        let malformed = || TopicRouteError::Malformed(text.to_owned());
        // A topic's name has no `=`, a regular expression may have one.
        let (pattern, topic) = text.rsplit_once('=').ok_or_else(malformed)?;
        if pattern.is_empty() || topic.is_empty() {
            return Err(malformed());
        }
        let tables = whole_name_pattern(pattern)?;
        let topic = parse_topic(topic, tables.captures_len())?;
        Ok(Self { tables, topic })
    }
}

fn whole_name_pattern(pattern: &str) -> Result<Regex, TopicRouteError> {
    let error = |reason: regex_lite::Error| TopicRouteError::Pattern {
        pattern: pattern.to_owned(),
        reason: reason.to_string(),
    };
    // The expression alone must be whole: `a)|(b` is not.
    Regex::new(pattern).map_err(error)?;
    Regex::new(&format!("^(?:{pattern})$")).map_err(error)
}

/// Parses the name of a topic. `group_count` is the number of groups of the regular expression, with the whole match.
fn parse_topic(topic: &str, group_count: usize) -> Result<Vec<TopicNamePart>, TopicRouteError> {
    let malformed = || TopicRouteError::Topic { topic: topic.to_owned() };
    let (mut parts, mut rest) = (Vec::new(), topic);
    while let Some(first) = rest.chars().next() {
        if first == '$' {
            let digit = rest[1..].chars().next().and_then(|digit| digit.to_digit(10));
            let group = digit.ok_or_else(malformed)? as usize;
            if group == 0 || group >= group_count {
                return Err(TopicRouteError::Group { topic: topic.to_owned(), group });
            }
            parts.push(TopicNamePart::Group(group));
            rest = &rest[2..];
            continue;
        }
        let (text, after) = rest.split_at(rest.find('$').unwrap_or(rest.len()));
        if !text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)) {
            return Err(malformed());
        }
        parts.push(TopicNamePart::Text(text.to_owned()));
        rest = after;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::{TopicRoute, TopicRouteError};

    #[test]
    fn routes_match_whole_names() {
        let check = |route: &str, [database, table]: [&str; 2], expected: Option<&str>| {
            let route: TopicRoute = route.parse().unwrap();
            assert_eq!(route.topic_of(database, table).as_deref(), expected, "{route:?}");
        };
        check(r"shop\.orders_[0-9]+=shop.orders", ["shop", "orders_12"], Some("shop.orders"));
        check(r"shop\.orders_[0-9]+=shop.orders", ["shop", "orders_12_old"], None);
        check(r"(.*)_[0-9]+\.(.*)=$1.$2", ["shop_7", "orders"], Some("shop.orders"));
        check(r"(a|b)\.(x)?y=$1-$2_all", ["b", "y"], Some("b-_all"));
        check("shop.Orders=all", ["shop", "orders"], None);
        check("a.b|x.y=all", ["a", "bx.y"], None);
        check("a.b=c=all", ["a", "b=c"], Some("all"));
    }

    #[test]
    fn malformed_routes_are_refused() {
        let check = |route: &str, expected: TopicRouteError| {
            assert_eq!(route.parse::<TopicRoute>().unwrap_err(), expected, "{route}");
        };
        let topic = |topic: &str| TopicRouteError::Topic { topic: topic.to_owned() };
        let group = |topic: &str, group| TopicRouteError::Group { topic: topic.to_owned(), group };
        for malformed in ["", "a.b", "=x", "a.b="] {
            check(malformed, TopicRouteError::Malformed(malformed.to_owned()));
        }
        check("a.b=x y", topic("x y"));
        check("a.b=x$", topic("x$"));
        check("(a).b=x$y", topic("x$y"));
        check("(a).b=$2", group("$2", 2));
        check("(a).b=$0", group("$0", 0));
        for malformed in ["(=x", "a)|(b=x"] {
            let error = malformed.parse::<TopicRoute>().unwrap_err();
            assert!(matches!(error, TopicRouteError::Pattern { .. }), "{malformed}");
        }
    }
}
