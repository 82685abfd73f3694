//! `causeway sandbox`: the commands. Each changes what is wanted, or reads what is there.

mod down;
mod look;
mod matrix;
mod node;
mod show;
mod up;

use crate::boot;
use crate::cluster_proxy;
use crate::error::Result;
use crate::folder::Folder;
use crate::forward;
use crate::pool;
use crate::supervisor;
use clap::{Args, Subcommand};
use std::fmt::Display;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

pub(crate) use down::remove;
pub(crate) use node::{load, on_node, remove_node, settle};
pub(crate) use up::{Request, bring_up, wait_settled};

/// A real Kubernetes on this machine: every node a network namespace with its own OVN zone
#[derive(Args)]
pub struct Sandbox {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(up::Up),
    Down(down::Down),
    List(show::List),
    Status(show::Show),
    Kubeconfig(look::Kubeconfig),
    Logs(look::Logs),
    Env(look::Env),
    Load(node::Load),
    Matrix(matrix::Matrix),
    #[command(subcommand)]
    Node(node::Node),
    /// Parts of a sandbox that start each other
    #[command(subcommand, hide = true)]
    Internal(Internal),
}

/// Which sandbox.
#[derive(Args)]
struct Which {
    /// The name of the sandbox
    #[arg(long, global = true, default_value = "default", env = "CAUSEWAY_SANDBOX_NAME")]
    name: String,
}

impl Which {
    fn folder(&self) -> Result<Folder> {
        Folder::named(&self.name)
    }
}

#[derive(Subcommand)]
enum Internal {
    /// Starts the sandbox again whenever it ends
    Keep { folder: PathBuf },
    /// The first process of a sandbox
    Init { folder: PathBuf },
    /// Runs everything else
    Supervise { folder: PathBuf },
    /// Carries connections into a namespace
    Forward {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        namespace: String,
        #[arg(long)]
        target: SocketAddr,
    },
    /// Carries the API server's connections to kubelets, pods and services
    ClusterProxy {
        #[arg(long)]
        socket: PathBuf,
    },
    /// Gives addresses to services of type LoadBalancer
    Pool {
        #[arg(long)]
        kubeconfig: PathBuf,
    },
}

impl Sandbox {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Up(up) => up.run()?,
            Command::Down(down) => down.run()?,
            Command::List(list) => list.run()?,
            Command::Status(show) => show.run()?,
            Command::Kubeconfig(kubeconfig) => kubeconfig.run()?,
            Command::Logs(logs) => logs.run()?,
            Command::Env(env) => env.run()?,
            Command::Load(load) => load.run()?,
            Command::Matrix(matrix) => matrix.run()?,
            Command::Node(node) => node.run()?,
            Command::Internal(internal) => internal.run()?,
        }
        Ok(())
    }
}

impl Internal {
    fn run(self) -> Result<()> {
        match self {
            Internal::Keep { folder } => boot::keep(&Folder::at(folder)),
            Internal::Init { folder } => boot::init(&Folder::at(folder)),
            Internal::Supervise { .. } => supervisor::supervise(),
            Internal::Forward { listen, namespace, target } => forward::forward(listen, &namespace, target),
            Internal::ClusterProxy { socket } => cluster_proxy::serve(&socket),
            Internal::Pool { kubeconfig } => pool::serve(&kubeconfig),
        }
    }
}

/// Prints a line. A reader that went away is no error of ours.
fn say(text: impl Display) {
    let _closed = writeln!(std::io::stdout().lock(), "{text}");
}
