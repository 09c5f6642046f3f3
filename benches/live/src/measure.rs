//! One contender's turn: a fresh control plane, its objects, and what happens then.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth_stand::{Options, Stand};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::Outcome;
use crate::client::{Server, post_all};
use crate::contender::{Contender, Running};
use crate::load::{Arrival, Load, NAMESPACE, pod_name};
use crate::record::Row;
use crate::sight::{Binds, count_events, count_told};

/// Events that have not come by then never will.
const EVENTS_DEADLINE: Duration = Duration::from_secs(60);
const EVENTS_LOOK: Duration = Duration::from_millis(50);
/// Connections that objects are created over.
const CREATORS: usize = 32;
/// Connections that pods come over, when they come one by one.
const PACERS: u32 = 16;

/// What all turns share.
pub(crate) struct Bench {
    pub(crate) runtime: Runtime,
    pub(crate) berth: PathBuf,
}

impl Bench {
    /// Returns nothing if the contender isn't here.
    ///
    /// # Errors
    /// The run is void: it got stuck, or lost an event.
    pub(crate) fn turn(&self, load: &Load, contender: Contender) -> Outcome<Option<Row>> {
        let options = if load.has_groups() { Options::all_groups() } else { Options::default() };
        let stand = Stand::start(&options)?;
        let server = Server::new(stand.url(), stand.ca_pem(), &stand.admin_token())?;
        let pods = contender.pods(load);
        self.runtime.block_on(populate(&server, load, pods))?;
        let turn = Turn { bench: self, stand: &stand, server, load, contender };
        let outcome = match load.arrival {
            Arrival::Burst => turn.burst(pods),
            Arrival::Paced { per_second } => turn.paced(pods, per_second),
        };
        outcome.map_err(|e| format!("{} of {}: VOID: {e}", contender.name(), load.name).into())
    }
}

/// Creates everything that is there before the scheduler.
async fn populate(server: &Server, load: &Load, pods: u32) -> Outcome<()> {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let posts = vec![("/api/v1/namespaces".to_owned(), namespace.to_string().into_bytes())];
    post_all(server, 1, posts).await?;
    let nodes =
        load.nodes().map(|node| ("/api/v1/nodes".to_owned(), node.to_string().into_bytes()));
    post_all(server, CREATORS, nodes.collect()).await?;
    let others = load.others(pods).into_iter();
    let others = others.map(|(path, object)| (path, object.to_string().into_bytes()));
    post_all(server, CREATORS, others.collect()).await?;
    let burst = if load.arrival == Arrival::Burst { pods } else { 0 };
    let pods = load.bound_pods().chain((0..burst).map(|i| load.pod(i)));
    let pods = pods.map(|pod| (pods_path(), pod.to_string().into_bytes()));
    post_all(server, CREATORS, pods.collect()).await
}

fn pods_path() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods")
}

struct Turn<'a> {
    bench: &'a Bench,
    stand: &'a Stand,
    server: Server,
    load: &'a Load,
    contender: Contender,
}

impl Turn<'_> {
    /// All pods are there; time counts from the contender's start.
    fn burst(&self, pods: u32) -> Outcome<Option<Row>> {
        let runtime = &self.bench.runtime;
        let mut binds = runtime.block_on(Binds::watch(&self.server))?;
        let started = Instant::now();
        let Some(mut running) = self.start()? else { return Ok(None) };
        runtime.block_on(binds.wait_for(pods as usize, || running.alive()))?;
        let mut row = Row::new(self.contender.name(), pods);
        let (first, last) = binds.span().ok_or("no pod was bound")?;
        let span = (last - first).as_secs_f64();
        row.binds_per_s = Some(f64::from(pods - 1) / span);
        row.first_bind_s = Some((first - started).as_secs_f64());
        self.finish(&mut row, running, first, last)?;
        Ok(Some(row))
    }

    /// Pods come one by one to a scheduler that runs; time counts from when the server had taken
    /// the pod.
    fn paced(&self, pods: u32, per_second: u32) -> Outcome<Option<Row>> {
        let runtime = &self.bench.runtime;
        let mut binds = runtime.block_on(Binds::watch(&self.server))?;
        let Some(mut running) = self.start()? else { return Ok(None) };
        // The first one shows that the scheduler is up; it is not measured.
        runtime.block_on(self.create(0))?;
        runtime.block_on(binds.wait_for(1, || running.alive()))?;
        let created = runtime.block_on(self.create_paced(1..pods, per_second))?;
        runtime.block_on(binds.wait_for(pods as usize, || running.alive()))?;
        let mut waits: Vec<f64> = Vec::new();
        for (pod, taken) in &created {
            let bound = binds.at(pod).ok_or_else(|| format!("{pod} is not bound"))?;
            // The watch may be faster than the answer.
            waits.push(bound.saturating_duration_since(*taken).as_secs_f64() * 1e3);
        }
        let mut row = Row::new(self.contender.name(), pods);
        (row.p50_ms, row.p99_ms) = (quantile(&mut waits, 0.5), quantile(&mut waits, 0.99));
        let (first, last) = binds.span().ok_or("no pod was bound")?;
        self.finish(&mut row, running, first, last)?;
        Ok(Some(row))
    }

    fn start(&self) -> Outcome<Option<Running>> {
        self.contender.start(self.stand, self.load, &self.bench.berth)
    }

    /// Waits for the events, and asks what all that has cost.
    fn finish(
        &self,
        row: &mut Row,
        running: Running,
        first: Instant,
        last: Instant,
    ) -> Outcome<()> {
        let pods = row.pods as usize;
        let mut used = running.used()?;
        if self.contender.sends_events() {
            let told = self.bench.runtime.block_on(self.all_told(pods))?;
            used = running.used()?;
            row.events_after_s = Some(told.saturating_duration_since(last).as_secs_f64());
            if row.binds_per_s.is_some() {
                row.told_per_s = Some(f64::from(row.pods) / (told.max(last) - first).as_secs_f64());
            }
            self.bench.runtime.block_on(self.each_told_once(pods))?;
        }
        row.cpu_us_per_pod = Some(used.cpu_us / f64::from(row.pods));
        row.rss_mib = Some(used.rss_mib);
        if let Some(port) = running.port.filter(|_| self.load.has_groups()) {
            row.group_ms = self.bench.runtime.block_on(self.group_ms(port))?;
        }
        Ok(())
    }

    /// Returns the mean of the scheduler's own histogram.
    async fn group_ms(&self, port: u16) -> Outcome<Option<f64>> {
        const FAMILY: &str = "scheduler_podgroup_scheduling_algorithm_duration_seconds";
        let url = format!("https://127.0.0.1:{port}");
        let (ca, token) = (self.stand.ca_pem(), self.stand.admin_token());
        let mut connection = Server::new(&url, ca, &token)?.connect().await?;
        let text = connection.get_bytes("/metrics").await?;
        let text = String::from_utf8_lossy(&text);
        let value = |part: &str| {
            let name = format!("{FAMILY}_{part} ");
            text.lines().find_map(|line| line.strip_prefix(&name)?.trim().parse::<f64>().ok())
        };
        let mean = value("sum").zip(value("count")).map(|(sum, count)| 1e3 * sum / count);
        Ok(mean.filter(|mean| mean.is_finite()))
    }

    /// Returns when the last event was seen.
    async fn all_told(&self, pods: usize) -> Outcome<Instant> {
        let mut connection = self.server.connect().await?;
        let begun = Instant::now();
        loop {
            let events = count_events(&mut connection).await?;
            if events >= pods {
                return Ok(Instant::now());
            }
            if begun.elapsed() > EVENTS_DEADLINE {
                return Err(format!("{events} events of {pods} pods").into());
            }
            tokio::time::sleep(EVENTS_LOOK).await;
        }
    }

    async fn each_told_once(&self, pods: usize) -> Outcome<()> {
        let told = count_told(&mut self.server.connect().await?).await?;
        match told == pods {
            true => Ok(()),
            false => Err(format!("{told} of {pods} pods have their event").into()),
        }
    }

    async fn create(&self, i: u32) -> Outcome<()> {
        let body = self.load.pod(i).to_string().into_bytes();
        self.server.connect().await?.post(&pods_path(), body).await
    }

    /// Creates pods at even times, and returns when the server had taken each.
    async fn create_paced(
        &self,
        pods: std::ops::Range<u32>,
        per_second: u32,
    ) -> Outcome<Vec<(String, Instant)>> {
        let begun = tokio::time::Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for pacer in 0..PACERS {
            let mine: Vec<(u32, Vec<u8>)> = pods
                .clone()
                .filter(|i| i % PACERS == pacer)
                .map(|i| (i, self.load.pod(i).to_string().into_bytes()))
                .collect();
            let server = self.server.clone();
            tasks.spawn(async move {
                let mut connection = server.connect().await?;
                let mut taken = Vec::new();
                for (i, body) in mine {
                    let at =
                        begun + Duration::from_secs(1) + Duration::from_secs(1) / per_second * i;
                    tokio::time::sleep_until(at).await;
                    connection.post(&pods_path(), body).await?;
                    taken.push((pod_name(i), Instant::now()));
                }
                Outcome::Ok(taken)
            });
        }
        let mut all = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            all.extend(ended??);
        }
        Ok(all)
    }
}

fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * q).round() as usize).copied()
}
