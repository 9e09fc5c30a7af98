//! Load generators in the pods of a Kubernetes Job: their specification, where each ran, and which names Kubernetes
//! accepts.

use serde::{Deserialize, Serialize};

use webstone_measure::units::Nanos;

/// Maximum length of a name that is a label (RFC 1123).
pub const LABEL_CHARS_MAX: usize = 63;

/// Pods of an Indexed Job that make load: those with the lowest indexes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PodsOfJob {
    /// Name of the Job.
    pub job: String,
    /// Number of its pods that make load. Required.
    pub pods: u32,
    /// Namespace of the Job; absent: that of the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Context of kubectl's configuration; absent: the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// kubectl's configuration file; absent: the one that kubectl finds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<String>,
    /// How long to wait until all of them are running.
    pub wait: Nanos,
    /// Whether pods may share a machine, for trials on a small cluster. A run in which they do cannot be certified.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub share_nodes: bool,
}

impl Default for PodsOfJob {
    fn default() -> PodsOfJob {
        PodsOfJob {
            job: "webstone".to_owned(),
            pods: 0,
            namespace: None,
            context: None,
            kubeconfig: None,
            wait: Nanos::from_secs(120),
            share_nodes: false,
        }
    }
}

/// The pod of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PodRecord {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Name of its node.
    pub node: String,
    /// Whether it used the node's network. If not, its interface is virtual, and the speed that the kernel reports
    /// for it means nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub host_network: bool,
}

impl PodRecord {
    /// `pod webstone-1-x7k2p on node2`.
    pub fn in_words(&self) -> String {
        format!("pod {} on {}", self.name, self.node)
    }
}

/// Why Kubernetes does not accept a name: words that follow the name.
pub type NameRule = &'static str;

/// Checks a name of one label (RFC 1123): of a namespace, or of a Job that gives its pods their names.
///
/// # Errors
/// The rule that it breaks.
pub fn label(text: &str) -> Result<(), NameRule> {
    let is_inside = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    match text.as_bytes() {
        [] => Err("empty"),
        bytes if bytes.len() > LABEL_CHARS_MAX => Err("longer than 63 characters"),
        bytes if !bytes.iter().all(|c| is_inside(*c) || *c == b'-') => {
            Err("not a name of lower-case letters, digits and hyphens")
        }
        [first, .., last] if !(is_inside(*first) && is_inside(*last)) => {
            Err("a name that begins or ends with a hyphen")
        }
        [b'-'] => Err("a name that begins or ends with a hyphen"),
        _ => Ok(()),
    }
}

/// Key and value of a node's label, as in `disktype=ssd`; the key may begin with a domain and a slash, the value may
/// be empty.
pub fn node_label(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    let (domain, name) = key.rsplit_once('/').map_or((None, key), |(domain, name)| (Some(domain), name));
    let is_word = |word: &str| {
        let bytes = word.as_bytes();
        let ends = [bytes.first(), bytes.last()].into_iter().flatten().all(u8::is_ascii_alphanumeric);
        let is_inside = |c: &u8| c.is_ascii_alphanumeric() || b"-_.".contains(c);
        bytes.len() <= LABEL_CHARS_MAX && ends && bytes.iter().all(is_inside)
    };
    let is_domain = |domain: &str| domain.len() <= 253 && domain.split('.').all(|part| label(part).is_ok());
    let is_key = !name.is_empty() && is_word(name) && domain.is_none_or(is_domain);
    (is_key && is_word(value)).then_some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_rfc_1123() {
        for name in ["a", "webstone", "w-1", "0", &"a".repeat(63)] {
            assert_eq!(label(name), Ok(()), "{name}");
        }
        for (name, rule) in [
            ("", "empty"),
            (&*"a".repeat(64), "longer than 63"),
            ("Web", "lower-case"),
            ("a.b", "lower-case"),
            ("-a", "a hyphen"),
            ("a-", "a hyphen"),
            ("-", "a hyphen"),
            ("ä", "lower-case"),
        ] {
            assert!(label(name).is_err_and(|why| why.contains(rule)), "{name}");
        }
    }

    #[test]
    fn labels_of_nodes_have_a_key_and_a_value() {
        assert_eq!(node_label("disktype=ssd"), Some(("disktype", "ssd")));
        assert_eq!(node_label("example.com/Pool_1=a.b"), Some(("example.com/Pool_1", "a.b")));
        assert_eq!(node_label("empty="), Some(("empty", "")));
        for wrong in ["disktype", "=ssd", "a b=c", "x/=1", "/x=1", "Up.er/x=1", "a=-b", "a=b=c", "a=b\n"] {
            assert_eq!(node_label(wrong), None, "{wrong:?}");
        }
    }
}
