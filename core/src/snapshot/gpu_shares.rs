//! Index of GPUs that are given out in parts by annotations: which pods have how much of which GPU
//! of their node. It is there only if a profile asks for it.
//!
//! Of a bound pod its object tells the GPUs, of one that is assumed the plan that binds it
//! ([`Overlay::give_gpus`](super::Overlay::give_gpus)). Nobody knows where a pod is that has neither:
//! its share counts on each GPU that it may be on. What is free is worked out from the shares whenever
//! it is asked for: there is no second count.

use std::collections::BTreeMap;

use crate::types::gpu_share::WHOLE_MILLI;
use crate::types::{GpuNumbers, GpuShare, NotShared, Pod, PodUid, ShareSize, SharingNode};

use super::cluster::Cluster;
use super::nodes::NodeIdx;

/// Drivers whose names begin so have GPUs.
const GPU_DRIVERS: &str = "gpu.";

#[derive(Debug, Default)]
pub(super) struct GpuShares {
    /// What plans have chosen for pods that aren't seen to be bound.
    given: BTreeMap<PodUid, GpuNumbers>,
    /// In the order in which they came.
    on: BTreeMap<NodeIdx, Vec<(PodUid, Held)>>,
}

/// What a pod on a node has of its GPUs.
#[derive(Clone, Debug)]
struct Held {
    share: GpuShare,
    gpus: Option<GpuNumbers>,
}

impl GpuShares {
    /// Which GPUs a pod has: by its plan, as long as there is one, else by its object.
    fn gpus_of<'a>(&'a self, pod: &'a Pod) -> Option<&'a GpuNumbers> {
        self.given.get(&pod.uid).or(pod.gpu_numbers.as_ref())
    }

    fn enter(&mut self, pod: &Pod, node: NodeIdx) {
        if let Some(share) = pod.gpu_share() {
            let held = Held { share, gpus: self.gpus_of(pod).cloned() };
            self.on.entry(node).or_default().push((pod.uid.clone(), held));
        }
    }

    fn leave(&mut self, uid: &PodUid, node: NodeIdx) {
        let Some(on) = self.on.get_mut(&node) else { return };
        if let Some(at) = on.iter().rposition(|(held, _)| held == uid) {
            on.remove(at);
        }
        if on.is_empty() {
            self.on.remove(&node);
        }
    }

    /// Returns what was given before.
    fn give(
        &mut self,
        uid: &PodUid,
        node: NodeIdx,
        gpus: Option<GpuNumbers>,
    ) -> Option<GpuNumbers> {
        let on = self.on.get_mut(&node);
        if let Some((_, held)) = on.and_then(|on| on.iter_mut().rfind(|(held, _)| held == uid)) {
            held.gpus = gpus.clone();
        }
        match gpus {
            Some(gpus) => self.given.insert(uid.clone(), gpus),
            None => self.given.remove(uid),
        }
    }
}

/// The GPUs of a node that are given out by annotations, with what is free of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedGpus {
    memory_mib: Option<u32>,
    /// By number. Unit: so that a whole GPU is [`SharedGpus::whole`], and thousandths of it and MiB of
    /// its memory are integers.
    free: Vec<i64>,
}

/// Some GPUs that a share may be of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareWay {
    pub gpus: GpuNumbers,
    /// Their places among all, in the ascending order of what is free.
    pub span: std::ops::Range<usize>,
}

impl SharedGpus {
    fn new(node: SharingNode) -> SharedGpus {
        let mut gpus = SharedGpus { memory_mib: node.memory_mib, free: Vec::new() };
        gpus.free = vec![gpus.whole(); usize::from(node.n_gpus)];
        gpus
    }

    /// Takes off what pods have.
    fn without<'a>(mut self, held: impl Iterator<Item = &'a Held> + Clone) -> SharedGpus {
        let known = |held: &'a Held| -> Option<&'a GpuNumbers> {
            held.gpus
                .as_ref()
                .filter(|gpus| gpus.iter().all(|at| usize::from(at) < self.free.len()))
        };
        let n_gpus = self.free.len();
        let (mut taken, mut perhaps) = (vec![0i64; n_gpus], vec![0i64; n_gpus]);
        for (held, gpus) in held.clone().filter_map(|held| Some((held, known(held)?))) {
            gpus.iter().for_each(|at| taken[usize::from(at)] += self.size_held(held));
        }
        for held in held.filter(|held| known(held).is_none()) {
            let size = self.size_held(held);
            let may = |at: &usize| taken[*at] + size <= self.whole();
            let there: Vec<usize> = (0..n_gpus).filter(may).collect();
            let enough = there.len() >= usize::from(held.share.n_gpus);
            let there = if enough { there } else { (0..n_gpus).collect() };
            there.into_iter().for_each(|at| perhaps[at] += size);
        }
        for (at, free) in self.free.iter_mut().enumerate() {
            *free = (*free - taken[at] - perhaps[at]).max(0);
        }
        self
    }

    /// A share of memory is a whole GPU where it isn't known how much that has.
    fn size_held(&self, held: &Held) -> i64 {
        self.size(&held.share).unwrap_or(self.whole())
    }

    fn mib(&self) -> i64 {
        self.memory_mib.map_or(1, i64::from)
    }

    fn whole(&self) -> i64 {
        WHOLE_MILLI * self.mib()
    }

    /// `None` if the node doesn't tell how much memory its GPUs have, and the share is of that.
    fn size(&self, share: &GpuShare) -> Option<i64> {
        match share.size {
            ShareSize::Milli(milli) => Some(i64::from(milli) * self.mib()),
            ShareSize::Mib(mib) => self.memory_mib.map(|_| i64::from(mib) * WHOLE_MILLI),
        }
    }

    /// Number of GPUs.
    pub fn len(&self) -> usize {
        self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Of each GPU. Unit: MiB.
    pub fn memory_mib(&self) -> Option<u32> {
        self.memory_mib
    }

    /// Returns the thousandths that are free of each GPU, by number, rounded down.
    pub fn milli(&self) -> impl Iterator<Item = i64> + '_ {
        self.free.iter().map(|free| free / self.mib())
    }

    /// Returns how much of one GPU can be had at most, in the unit of the share, rounded down.
    pub fn most(&self, size: ShareSize) -> i64 {
        let most = self.free.iter().copied().max().unwrap_or(0);
        match size {
            ShareSize::Milli(_) => most / self.mib(),
            ShareSize::Mib(_) => self.memory_mib.map_or(0, |_| most / WHOLE_MILLI),
        }
    }

    /// Returns of how many GPUs so much is free.
    pub fn n_with(&self, share: &GpuShare) -> usize {
        let size = self.size(share);
        self.free.iter().filter(|free| size.is_some_and(|size| **free >= size)).count()
    }

    /// Returns how often such a part of one GPU can be had.
    pub fn n_shares(&self, share: &GpuShare) -> u32 {
        let size = self.size(share).filter(|size| *size > 0);
        let of_all = size.map_or(0, |size| self.free.iter().map(|free| free / size).sum());
        u32::try_from(of_all).unwrap_or(u32::MAX)
    }

    /// Tells whether the share could be had if nothing were taken.
    pub fn ever(&self, share: &GpuShare) -> bool {
        let fits = self.size(share).is_some_and(|size| size <= self.whole());
        fits && usize::from(share.n_gpus) <= self.free.len()
    }

    /// Tells whether the share is free of just these GPUs.
    pub fn are_free(&self, share: &GpuShare, gpus: &GpuNumbers) -> bool {
        let Some(size) = self.size(share) else { return false };
        let free = |at: u16| self.free.get(usize::from(at)).is_some_and(|free| *free >= size);
        gpus.len() == usize::from(share.n_gpus) && gpus.iter().all(free)
    }

    /// Returns the ways to have the share, those first that leave least over. GPUs of which as much is
    /// free are one; several are taken side by side in the order of what is free.
    pub fn ways(&self, share: &GpuShare) -> Vec<ShareWay> {
        let Some(size) = self.size(share) else { return Vec::new() };
        let mut order: Vec<u16> = (0..self.free.len() as u16).collect();
        let free = |at: u16| self.free[usize::from(at)];
        order.sort_by_key(|at| (free(*at), *at));
        let count = usize::from(share.n_gpus).max(1);
        let way = |(start, window): (usize, &[u16])| {
            let (first, last) = (free(*window.first()?), free(*window.last()?));
            let again = start > 0 && free(order[start - 1]) == first && first == last;
            let gpus = GpuNumbers::new(window.to_vec())?;
            let span = start..start + count;
            (first >= size && !again).then_some(ShareWay { gpus, span })
        };
        order.windows(count).enumerate().filter_map(way).collect()
    }
}

impl Cluster {
    /// Has the ledger keep the index.
    pub fn keep_gpu_shares(&mut self) {
        self.gpu_shares = Some(Box::default());
    }

    /// Tells whether what annotations say of parts of GPUs counts.
    pub fn keeps_gpu_shares(&self) -> bool {
        self.gpu_shares.is_some()
    }

    /// Returns the GPUs of a node as they are now. Cost: O(shares on the node × GPUs).
    ///
    /// # Errors
    /// Why they aren't given out by annotations.
    pub fn shared_gpus(&self, node: NodeIdx) -> Result<SharedGpus, NotShared> {
        self.shared_gpus_but(node, None)
    }

    /// As [`Cluster::shared_gpus`], with what a pod has there left out.
    ///
    /// # Errors
    /// As [`Cluster::shared_gpus`].
    pub fn shared_gpus_but(
        &self,
        at: NodeIdx,
        pod: Option<&PodUid>,
    ) -> Result<SharedGpus, NotShared> {
        let node = self.nodes.node(at).ok_or(NotShared::Unmarked)?;
        let shares = self.gpu_shares.as_ref().ok_or(NotShared::Unmarked)?;
        let gpus = SharedGpus::new(SharingNode::of(node)?);
        if self.devices.drivers_on(&node.name).any(|driver| driver.starts_with(GPU_DRIVERS)) {
            return Err(NotShared::Driver);
        }
        let on = shares.on.get(&at).into_iter().flatten();
        let others = on.filter(|(uid, _)| Some(uid) != pod);
        Ok(gpus.without(others.map(|(_, held)| held)))
    }

    /// Returns the GPUs that the plan of a pod has chosen for its share.
    pub fn gpus_given(&self, pod: &PodUid) -> Option<&GpuNumbers> {
        self.gpu_shares.as_ref()?.given.get(pod)
    }

    /// Chooses GPUs for a pod on `node`. Returns what was chosen before.
    pub(super) fn give_gpus(
        &mut self,
        pod: &PodUid,
        node: NodeIdx,
        gpus: Option<GpuNumbers>,
    ) -> Option<GpuNumbers> {
        let before = self.gpu_shares.as_mut()?.give(pod, node, gpus);
        self.nodes.touch(node);
        before
    }

    pub(super) fn enter_share(&mut self, pod: &Pod, node: NodeIdx) {
        if let Some(shares) = &mut self.gpu_shares {
            shares.enter(pod, node);
        }
    }

    pub(super) fn leave_share(&mut self, pod: &Pod, node: NodeIdx) {
        if let Some(shares) = &mut self.gpu_shares {
            shares.leave(&pod.uid, node);
        }
    }

    /// No plan has chosen anything for the pod any more. What it has on a node stays as it is.
    pub(super) fn forget_gpus(&mut self, pod: &PodUid) {
        if let Some(shares) = &mut self.gpu_shares {
            shares.given.remove(pod);
        }
    }

    /// Returns the GPUs that a pod has, or would have on a node.
    pub(super) fn share_gpus_of(&self, pod: &Pod) -> Option<GpuNumbers> {
        self.gpu_shares.as_ref()?.gpus_of(pod).cloned()
    }
}

#[cfg(test)]
mod tests;
