//! The manifest of a Kubernetes Job whose pods make load, as text for `kubectl apply`. Nothing here speaks with a cluster.
//!
//! An Indexed Job, because its pods have numbers; without retries, because a restarted pod would be another host in the middle of a
//! run. Nothing remains if the controller dies: pods end when nobody uses them, the Job at its deadline, and Kubernetes removes what
//! has ended.

use std::fmt::Write as _;

use webstone_measure::units::{NANOS_PER_SECOND, Nanos};
use webstone_model::kubernetes::LABEL_CHARS_MAX;

use super::pods::CONTAINER;

/// What a manifest is made of. The parts are checked where they are typed.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name, a label of RFC 1123.
    pub name: String,
    /// Its namespace, a label of RFC 1123; `None`: that of kubectl's context.
    pub namespace: Option<String>,
    /// Its pods.
    pub pods: u32,
    /// Whole CPUs of each.
    pub cpus: u32,
    /// Memory of each, as Kubernetes writes it: `2Gi`.
    pub memory: String,
    /// The image, with `webstone` on its PATH.
    pub image: String,
    /// How long it may last, in whole seconds.
    pub deadline: Nanos,
    /// How long a pod waits for a controller.
    pub idle: Nanos,
    /// How long it is kept once it has ended, in whole seconds.
    pub ttl: Nanos,
    /// Labels that a node must have.
    pub node_selector: Vec<(String, String)>,
    /// Whether pods have their node's network.
    pub host_network: bool,
    /// Whether pods may be on one node.
    pub share_nodes: bool,
}

/// Why there is no manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError {
    /// What is wrong with the name.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

impl Job {
    /// The manifest, in YAML.
    ///
    /// # Errors
    /// If the name is too long for the pods that are named after it.
    pub fn manifest(&self) -> Result<String, JobError> {
        let last = self.pods.saturating_sub(1).to_string();
        let most = LABEL_CHARS_MAX - 1 - last.len();
        if self.name.len() > most {
            return Err(JobError {
                what: format!(
                    "`{}` is too long: pods are called by it, as in {}-{last}, in at most {LABEL_CHARS_MAX} characters",
                    self.name, self.name
                ),
                hint: format!("write at most {most} characters"),
            });
        }
        let Job { name, pods, cpus, memory, image, idle, .. } = self;
        let seconds = |time: Nanos| time.0 / NANOS_PER_SECOND;
        let namespace =
            self.namespace.as_ref().map(|namespace| format!("\n  namespace: {}", quoted(namespace)));
        let places = if self.share_nodes { "on any nodes" } else { "each on a node of its own" };
        Ok(format!(
            "\
# Load generators for webstone: {pods} {of_them} with {cpus} {of_cpus} each, {places}.
# They wait for runs, which start agents in them by `kubectl exec`, and end {idle} after the last one.
apiVersion: batch/v1
kind: Job
metadata:
  name: {quoted_name}{namespace}
  labels:
    app.kubernetes.io/name: webstone
spec:
  completionMode: Indexed
  completions: {pods}
  parallelism: {pods}
  backoffLimitPerIndex: 0
  activeDeadlineSeconds: {deadline}
  ttlSecondsAfterFinished: {ttl}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: webstone
        app.kubernetes.io/component: load-generator
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 5
      automountServiceAccountToken: false
      enableServiceLinks: false
{placement}      containers:
      - name: {CONTAINER}
        image: {quoted_image}
        command: [webstone, agent, --idle, {idle}]
        # Where `webstone calibrate` in this pod leaves what agents look for: a certified run needs it.
        env: [{{name: XDG_DATA_HOME, value: /tmp}}]
        # Requests equal to limits, and whole CPUs: nodes with the static CPU manager give each pod CPUs of its own.
        resources:
          requests: {{cpu: \"{cpus}\", memory: {quoted_memory}}}
          limits: {{cpu: \"{cpus}\", memory: {quoted_memory}}}
        securityContext:
          runAsNonRoot: true
          runAsUser: 65532
          runAsGroup: 65532
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {{drop: [ALL]}}
          seccompProfile: {{type: RuntimeDefault}}
        volumeMounts:
        - {{name: tmp, mountPath: /tmp}}
      volumes:
      - name: tmp
        emptyDir: {{sizeLimit: 64Mi}}
",
            of_them = if *pods == 1 { "pod" } else { "pods" },
            of_cpus = if *cpus == 1 { "CPU" } else { "CPUs" },
            quoted_name = quoted(name),
            namespace = namespace.unwrap_or_default(),
            deadline = seconds(self.deadline),
            ttl = seconds(self.ttl),
            placement = self.placement(),
            quoted_image = quoted(image),
            quoted_memory = quoted(memory),
        ))
    }

    /// On which nodes, and on which network.
    fn placement(&self) -> String {
        let mut text = String::new();
        if self.host_network {
            text += "      hostNetwork: true\n      dnsPolicy: ClusterFirstWithHostNet\n";
        }
        if !self.node_selector.is_empty() {
            text += "      nodeSelector:\n";
        }
        for (key, value) in &self.node_selector {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "        {}: {}", quoted(key), quoted(value));
        }
        if !self.share_nodes {
            text += "      # Also of other Jobs of webstone in this namespace: two generators on one node take CPUs from each other.\n      \
                     affinity:\n        podAntiAffinity:\n          requiredDuringSchedulingIgnoredDuringExecution:\n          \
                     - topologyKey: kubernetes.io/hostname\n            labelSelector:\n              matchLabels:\n                \
                     app.kubernetes.io/component: load-generator\n                app.kubernetes.io/name: webstone\n";
        }
        text
    }
}

/// A text as a string of YAML, whatever else it might look like: `"true"`, `"1"`.
fn quoted(text: &str) -> String {
    // A string of JSON is one of YAML.
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job {
            name: "webstone".into(),
            namespace: None,
            pods: 40,
            cpus: 8,
            memory: "2Gi".into(),
            image: "registry.example/webstone:1".into(),
            deadline: Nanos::from_secs(3_600),
            idle: Nanos::from_secs(120),
            ttl: Nanos::from_secs(60),
            node_selector: Vec::new(),
            host_network: false,
            share_nodes: false,
        }
    }

    #[test]
    fn a_manifest_has_what_was_asked_for_and_what_a_run_needs() {
        let text = job().manifest().unwrap();
        for line in [
            "  completionMode: Indexed\n",
            "  completions: 40\n  parallelism: 40\n  backoffLimitPerIndex: 0\n",
            "  activeDeadlineSeconds: 3600\n  ttlSecondsAfterFinished: 60\n",
            "      restartPolicy: Never\n",
            "        command: [webstone, agent, --idle, 2m]\n",
            "        env: [{name: XDG_DATA_HOME, value: /tmp}]\n",
            "          requests: {cpu: \"8\", memory: \"2Gi\"}\n          limits: {cpu: \"8\", memory: \"2Gi\"}\n",
            "          requiredDuringSchedulingIgnoredDuringExecution:\n          - topologyKey: kubernetes.io/hostname\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        for word in ["  namespace:", "nodeSelector", "hostNetwork", "\t", " \n"] {
            assert!(!text.contains(word), "{word:?}: {text}");
        }
    }

    #[test]
    fn what_else_is_asked_for_stands_where_it_belongs() {
        let more = Job {
            namespace: Some("bench".into()),
            node_selector: vec![("pool".into(), "true".into()), ("zone".into(), "1".into())],
            host_network: true,
            share_nodes: true,
            ..job()
        };
        let text = more.manifest().unwrap();
        for line in [
            "  name: \"webstone\"\n  namespace: \"bench\"\n",
            "      hostNetwork: true\n      dnsPolicy: ClusterFirstWithHostNet\n",
            "      nodeSelector:\n        \"pool\": \"true\"\n        \"zone\": \"1\"\n      containers:\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("affinity"), "{text}");
    }

    #[test]
    fn pods_are_named_after_the_job_so_its_name_is_shorter_than_theirs() {
        let named = |chars: usize, pods: u32| Job { name: "a".repeat(chars), pods, ..job() }.manifest();
        assert!(named(61, 10).is_ok());
        assert!(named(62, 10).is_err_and(|error| error.hint == "write at most 61 characters"));
        assert!(named(61, 11).is_err_and(|error| error.what.contains("as in aaa")));
    }
}
