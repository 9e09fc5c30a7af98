//! `generators`: the hosts that make load together; and `agent`, which runs on each.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use webstone_measure::units::Nanos;
use webstone_model::powers::Power;

use super::values;

/// What is done with the hosts.
#[derive(Args, Debug)]
pub struct GeneratorsArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: GeneratorsCommand,
}

/// What is done with the hosts.
#[derive(Debug, Subcommand)]
pub enum GeneratorsCommand {
    /// Start every agent, and show its host, build, CPUs and clock
    Check(GeneratorsCheckArgs),
    /// Print the manifest of a Kubernetes Job whose pods make load
    ///
    /// An Indexed Job: each pod has a node of its own and whole CPUs, waits for runs, and ends by itself. A testbed file names its pods
    /// as `[[generators]]` with `kubernetes = { job = "webstone", pods = 40 }`; see `docs/generators.md`.
    Job(Box<GeneratorsJobArgs>),
}

/// `agent`.
#[derive(Args, Debug)]
pub struct AgentArgs {
    /// Keep a container alive for agents, instead of being one: end after this time without another process of webstone
    ///
    /// What a pod of `webstone generators job` runs; `kubectl exec` starts the agents beside it.
    ///
    /// Default: none, be an agent. Example: --idle 2m
    #[arg(long, value_name = "TIME", value_parser = values::some_time)]
    pub idle: Option<Nanos>,

    /// Port of the server on this host if it is not the target's, as with a load balancer before it; repeat it for more
    ///
    /// Default: the port of the target's URL. Example: --port 8080
    #[arg(long, value_name = "PORT", value_parser = values::port, conflicts_with = "idle")]
    pub port: Vec<u16>,

    /// What the controller may have this agent do besides making load: `proxy` (send requests through a proxy), `write` (write the
    /// file of --tls-key-log on this host)
    ///
    /// Default: none. Example: --allow proxy
    #[arg(long, value_name = "POWERS", value_delimiter = ',', conflicts_with = "idle")]
    pub allow: Vec<Power>,
}

/// `generators job`.
#[derive(Args, Debug)]
pub struct GeneratorsJobArgs {
    /// Number of pods, each on a node of its own
    ///
    /// Default: none, it must be given. Example: --pods 40
    #[arg(long, value_name = "N", value_parser = values::pods)]
    pub pods: u32,

    /// CPUs of each pod, for as many workers: whole ones, requested and limited alike
    ///
    /// Default: none, it must be given. Example: --cpus 8
    #[arg(long, value_name = "N", value_parser = values::pod_cpus)]
    pub cpus: u32,

    /// Image that has `webstone` on its PATH, the same build as here
    ///
    /// Default: none, it must be given. Example: --image registry.example/webstone:1
    #[arg(long, value_name = "IMAGE", value_parser = values::image)]
    pub image: String,

    /// Name of the Job
    ///
    /// Default: webstone. Example: --name webstone-eu
    #[arg(long, value_name = "NAME", default_value = "webstone", hide_default_value = true, value_parser = values::label)]
    pub name: String,

    /// Namespace of the Job
    ///
    /// Default: that of kubectl's context. Example: --namespace bench
    #[arg(long, value_name = "NAME", value_parser = values::label)]
    pub namespace: Option<String>,

    /// Memory of each pod, requested and limited alike
    ///
    /// Default: 2Gi. Example: --memory 4Gi
    #[arg(long, value_name = "BYTES", default_value = "2Gi", hide_default_value = true, value_parser = values::memory)]
    pub memory: String,

    /// How long the Job may last, waiting included; then Kubernetes ends its pods, and a run that still uses them
    ///
    /// Default: 1h. Example: --deadline 8h
    #[arg(long, value_name = "TIME", default_value = "1h", hide_default_value = true, value_parser = values::whole_seconds)]
    pub deadline: Nanos,

    /// How long a pod waits for a run, and for another one after it
    ///
    /// Default: 2m. Example: --idle 10m
    #[arg(long, value_name = "TIME", default_value = "2m", hide_default_value = true, value_parser = values::whole_seconds)]
    pub idle: Nanos,

    /// How long Kubernetes keeps the Job once it has ended
    ///
    /// Default: 1m. Example: --ttl 1h
    #[arg(long, value_name = "TIME", default_value = "1m", hide_default_value = true, value_parser = values::whole_seconds)]
    pub ttl: Nanos,

    /// Label that a node must have; repeat it for more
    ///
    /// Default: any node. Example: --node-selector pool=load
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::node_label)]
    pub node_selector: Vec<(String, String)>,

    /// Use the nodes' own network: no overlay between generator and server, and a full network interface is seen
    #[arg(long)]
    pub host_network: bool,

    /// Allow pods on one node, for trials on a small cluster; such a run cannot be certified
    #[arg(long)]
    pub share_nodes: bool,
}

/// `generators check`.
#[derive(Args, Debug)]
pub struct GeneratorsCheckArgs {
    /// Testbed file whose `[[generators]]` to check
    ///
    /// Default: none. Example: -f testbed.toml
    #[arg(short = 'f', long, value_name = "FILE")]
    pub testbed: Option<PathBuf>,

    /// Command that runs `webstone agent` on a host; repeat it for each host, instead of those of a file
    ///
    /// Default: none. Example: --generator 'ssh gen1 webstone agent'
    #[arg(long, value_name = "COMMAND")]
    pub generator: Vec<String>,
}
