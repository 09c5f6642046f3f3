//! Shows Berth on a real control plane: the cluster and the pods of `examples/gpu-cluster`, an etcd
//! and a kube-apiserver on loopback, and the binary `berth`. `make demo` runs it.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use berth::simulate::input::{self, InputError};
use berth::simulate::islands::Islands;
use berth::simulate::table::{Paint, View, table};
use berth::wire::{Kind, Object, Tables, decode};
use berth_core::types::{Node, Pod, PodUid};
use berth_stand::{
    ADMIN, ApiClient, FakeKubelet, Options, Patch, Stand, try_wait_for, with_sources,
};
use serde_json::{Value, json};

const SCHEDULER: &str = "berth";
const SETTLE_DEADLINE: Duration = Duration::from_secs(60);
/// The node under repair, whose taint is taken off in the end.
const REPAIRED: &str = "a100-4";
const MAINTENANCE: &str = "example.com/maintenance";

fn main() -> ExitCode {
    match demo() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {}", with_sources(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn demo() -> Result<(), Box<dyn Error>> {
    let binary = berth_binary()?;
    let objects = [read("cluster.yaml")?, read("pods.yaml")?].concat();
    let stand = Stand::start(&Options::default())?;
    let api = stand.client();
    let _kubelet = FakeKubelet::start(api.clone());
    for object in &objects {
        api.create_object(object)?;
    }
    let version = api.get("/version")?;
    let version = version["gitVersion"].as_str().unwrap_or_default().to_owned();
    println!("kube-apiserver {version} has {} objects at {}.", objects.len(), stand.url());

    let waiting = unbound(&api)?;
    let started = Instant::now();
    let mut berth = Berth::start(&binary, &stand)?;
    println!("berth run --config {}", folder().join("scheduler.yaml").display());
    wait_until_told(&api, &mut berth)?;
    println!(
        "Every pod has an answer after {:.1} s. What the API server says:\n",
        seconds(started)
    );
    println!("{}", shown(&api, &waiting)?);

    repair(&api, &mut berth)?;
    drop(berth);
    stand.stop();
    println!("\nEverything is stopped and removed.\n\n{}", NEXT.trim_end());
    Ok(())
}

const NEXT: &str = "\
What to try next
  Your own cluster, read only: who would go where, who waits and why
    kubectl get nodes,pods -A -o yaml | cargo run -q -- simulate -f -
  The same result as data
    cargo run -q -- simulate -f examples/gpu-cluster -o json
  Another cluster: edit examples/gpu-cluster, then
    cargo run -q -- simulate -f examples/gpu-cluster
  A control plane to play with
    cargo run -p berth-stand --bin stand -- run
";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/gpu-cluster")
}

/// The binary stands beside this example's folder.
fn berth_binary() -> Result<PathBuf, Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let binary = own.ancestors().nth(2).map(|folder| folder.join("berth"));
    match binary.filter(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => Err("the binary is missing: run `cargo build`, or `make demo`".into()),
    }
}

fn read(name: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let path = folder().join(name);
    let text = std::fs::read_to_string(&path)?;
    let told = |errors: Vec<InputError>| {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let documents = input::read(&path.display().to_string(), &text).map_err(told)?;
    Ok(documents.into_iter().map(|document| document.value).collect())
}

/// The scheduler as a process. Dropping it ends it.
struct Berth {
    child: Child,
    log: PathBuf,
}

impl Berth {
    fn start(binary: &Path, stand: &Stand) -> Result<Berth, Box<dyn Error>> {
        let log = stand.folder().join("berth.log");
        let output = File::create(&log)?;
        // With --config a --kubeconfig is ignored, as with kube-scheduler: the file names it.
        let config = stand.folder().join("scheduler.yaml");
        let kubeconfig = stand.kubeconfig_path(ADMIN)?;
        let written = std::fs::read_to_string(folder().join("scheduler.yaml"))?;
        std::fs::write(
            &config,
            format!("{written}\nclientConnection: {{kubeconfig: {kubeconfig:?}}}\n"),
        )?;
        let child = Command::new(binary)
            .args(["run", "--secure-port=0", "--config"])
            .arg(&config)
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        Ok(Berth { child, log })
    }

    /// Fails if the process has ended, with the end of its log.
    fn check(&mut self) -> Result<(), Box<dyn Error>> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(5)..].join("\n");
        Err(format!("berth has ended ({status}):\n{tail}").into())
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        // It may have ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pods(api: &ApiClient) -> Result<Vec<Value>, Box<dyn Error>> {
    Ok(api.list("/api/v1/pods")?)
}

fn is_unbound(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_null()
}

fn unbound(api: &ApiClient) -> Result<BTreeSet<PodUid>, Box<dyn Error>> {
    let pods = pods(api)?;
    let uids =
        pods.iter().filter(|pod| is_unbound(pod)).filter_map(|p| p["metadata"]["uid"].as_str());
    Ok(uids.map(|uid| PodUid(uid.into())).collect())
}

/// Waits until each pod has a node or is told why not.
fn wait_until_told(api: &ApiClient, berth: &mut Berth) -> Result<(), Box<dyn Error>> {
    let told = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut names = conditions.filter(|c| c["type"] == "PodScheduled");
        !is_unbound(pod) || names.next().is_some()
    };
    let all_told = || pods(api).map(|pods| pods.iter().all(told));
    try_wait_for(SETTLE_DEADLINE, "an answer for every pod", || {
        let seen = berth.check().and_then(|()| all_told());
        match seen {
            Ok(false) => None,
            other => Some(other),
        }
    })??;
    Ok(())
}

/// Draws the table from what the API server has.
fn shown(api: &ApiClient, waiting: &BTreeSet<PodUid>) -> Result<String, Box<dyn Error>> {
    let mut tables = Tables::default();
    let (mut nodes, mut shown_pods): (Vec<Node>, Vec<Pod>) = (Vec::new(), Vec::new());
    let listed = |kind: Kind, objects: Vec<Value>| objects.into_iter().map(move |o| (kind, o));
    let all = listed(Kind::Node, api.list("/api/v1/nodes")?);
    for (kind, object) in all.chain(listed(Kind::Pod, pods(api)?)) {
        match decode(kind, object, &mut tables)?.object {
            Object::Node(node) => nodes.push(*node),
            Object::Pod(pod) => shown_pods.push(*pod),
            _ => {}
        }
    }
    let placed = shown_pods.iter().filter(|p| p.node_name.is_some() && waiting.contains(&p.uid));
    let placed: BTreeSet<PodUid> = placed.map(|pod| pod.uid.clone()).collect();
    let served = [SCHEDULER.to_owned()];
    let (pods, claims) = (&shown_pods, &[]);
    let (groups, islands) = (&[], &Islands::new());
    let (nodes, placed, served) = (&nodes, &placed, &served);
    let view = View { nodes, pods, claims, groups, islands, placed, served };
    Ok(table(&view, Paint::of_stdout()))
}

/// Takes the taint off the node under repair and shows who gets it.
fn repair(api: &ApiClient, berth: &mut Berth) -> Result<(), Box<dyn Error>> {
    let path = format!("/api/v1/nodes/{REPAIRED}");
    let node = api.get(&path)?;
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let kept: Vec<&Value> = taints.filter(|taint| taint["key"] != MAINTENANCE).collect();
    let waiting = unbound(api)?;
    let started = Instant::now();
    api.patch(&path, Patch::Merge, &json!({"spec": {"taints": kept}}))?;
    let won = try_wait_for(SETTLE_DEADLINE, "a pod on the repaired node", || {
        let newly = berth.check().and_then(|()| pods(api)).map(|pods| {
            pods.into_iter().find(|pod| {
                let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
                pod["spec"]["nodeName"] == REPAIRED && waiting.contains(&PodUid(uid.into()))
            })
        });
        newly.transpose()
    })??;
    let name = |key: &str| won["metadata"][key].as_str().unwrap_or_default().to_owned();
    println!(
        "{REPAIRED} is repaired and loses its taint: {}/{} is bound to it {} ms later.",
        name("namespace"),
        name("name"),
        started.elapsed().as_millis()
    );
    Ok(())
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}
