//! What is free follows from the shares that pods have, on overlays too, and from what objects tell.

use super::*;
use crate::snapshot::Overlay;
use crate::testkit::parse;

/// Two nodes of four GPUs with 80 GiB each.
const NODES: &str =
    "node n labels=berth.dev/gpu-fractions=true,nvidia.com/gpu.count=4,nvidia.com/gpu.memory=81920
node m labels=berth.dev/gpu-fractions=true,nvidia.com/gpu.count=4,nvidia.com/gpu.memory=81920
";

fn cluster(text: &str) -> Cluster {
    let mut cluster = Cluster::default();
    cluster.keep_gpu_shares();
    fold(&mut cluster, &format!("{NODES}{text}"));
    cluster
}

fn fold(cluster: &mut Cluster, text: &str) {
    parse(text).unwrap().into_iter().for_each(|event| drop(cluster.fold(event)));
}

fn at(cluster: &Cluster, node: &str) -> NodeIdx {
    cluster.nodes().index(node).unwrap()
}

fn milli(cluster: &Cluster, node: &str) -> Vec<i64> {
    cluster.shared_gpus(at(cluster, node)).unwrap().milli().collect()
}

fn numbers(text: &str) -> GpuNumbers {
    GpuNumbers::parse(text, ',').unwrap()
}

fn share(milli: u16, n_gpus: u16) -> GpuShare {
    GpuShare { size: ShareSize::Milli(milli), n_gpus }
}

#[test]
fn what_bound_pods_have_is_taken_of_their_gpus() {
    let mut cluster = cluster(
        "pod a on=n share=500 gpus=1\npod b on=n share=300x2 gpus=1,3\npod c on=n share=20480MiB gpus=3",
    );
    assert_eq!(milli(&cluster, "n"), [1000, 200, 1000, 450]);
    assert_eq!(milli(&cluster, "m"), [1000; 4]);
    fold(&mut cluster, "pod b on=n share=300x2 gpus=1,3 ended\n-pod a");
    assert_eq!(milli(&cluster, "n"), [1000, 1000, 1000, 750]);
}

/// It counts on each GPU that it may be on: on GPU 0 there is no room for it.
#[test]
fn a_share_of_which_nobody_knows_where_it_is_counts_where_it_may_be() {
    let mut cluster = cluster("pod a on=n share=800 gpus=0\npod b on=n share=300");
    assert_eq!(milli(&cluster, "n"), [200, 700, 700, 700]);
    fold(&mut cluster, "pod b on=n share=300 gpus=2");
    assert_eq!(milli(&cluster, "n"), [200, 1000, 700, 1000]);
    fold(&mut cluster, "pod b on=n share=300 gpus=7");
    assert_eq!(milli(&cluster, "n"), [200, 700, 700, 700], "there is no such GPU");
    fold(&mut cluster, "pod b on=n share=300x4");
    assert_eq!(milli(&cluster, "n"), [0, 700, 700, 700], "it must be on the first too");
}

#[test]
fn thirds_of_the_memory_fit_three_times() {
    let cluster = cluster(
        "pod a on=n share=27306MiB gpus=0\npod b on=n share=27307MiB gpus=0\npod c on=n share=1MiB gpus=1",
    );
    let gpus = cluster.shared_gpus(at(&cluster, "n")).unwrap();
    let third = GpuShare { size: ShareSize::Mib(27_307), n_gpus: 1 };
    assert_eq!(gpus.milli().collect::<Vec<_>>(), [333, 999, 1000, 1000]);
    assert!(gpus.are_free(&third, &numbers("0")));
    assert!(!gpus.are_free(&share(334, 1), &numbers("0")));
    assert_eq!((gpus.n_with(&third), gpus.n_with(&share(1000, 1))), (4, 2));
    assert_eq!((gpus.most(third.size), gpus.most(ShareSize::Milli(1))), (81_920, 1000));
}

#[test]
fn a_share_of_memory_is_a_whole_gpu_where_that_is_not_told() {
    let mut cluster = cluster("node k alibabacloud.com/gpu-count=2\npod a on=k share=1MiB gpus=0");
    assert_eq!(milli(&cluster, "k"), [0, 1000]);
    let mib = GpuShare { size: ShareSize::Mib(1), n_gpus: 1 };
    let gpus = cluster.shared_gpus(at(&cluster, "k")).unwrap();
    assert!(!gpus.ever(&mib) && gpus.ways(&mib).is_empty() && gpus.n_with(&mib) == 0);
    fold(&mut cluster, "node k alibabacloud.com/gpu-count=2 labels=nvidia.com/gpu.memory=1000");
    assert_eq!(milli(&cluster, "k"), [999, 1000]);
}

#[test]
fn equal_gpus_are_one_way_and_the_fullest_comes_first() {
    let cluster = cluster("pod a on=n share=500 gpus=2\npod b on=n share=700 gpus=3");
    let gpus = cluster.shared_gpus(at(&cluster, "n")).unwrap();
    let ways = |share: GpuShare| -> Vec<String> {
        gpus.ways(&share).iter().map(|way| format!("{} {:?}", way.gpus, way.span)).collect()
    };
    assert_eq!(ways(share(300, 1)), ["3 0..1", "2 1..2", "0 2..3"]);
    assert_eq!(ways(share(400, 2)), ["0,2 1..3", "0,1 2..4"]);
    assert!(ways(share(400, 4)).is_empty() && ways(share(1, 5)).is_empty());
}

#[test]
fn whoever_else_gives_the_gpus_out_ends_it() {
    let mut cluster = cluster("slice s node=n pool=n driver=gpu.nvidia.com devices=\"gpu-0..3\"");
    let told = |cluster: &Cluster, node: &str| cluster.shared_gpus(at(cluster, node)).err();
    assert_eq!(told(&cluster, "n"), Some(NotShared::Driver));
    assert_eq!(told(&cluster, "m"), None);
    let before = cluster.nodes().slot(at(&cluster, "n")).version;
    fold(&mut cluster, "-slice s");
    assert_eq!(told(&cluster, "n"), None);
    assert_ne!(before, cluster.nodes().slot(at(&cluster, "n")).version);
    let mut unkept = Cluster::default();
    fold(&mut unkept, NODES);
    assert_eq!(told(&unkept, "n"), Some(NotShared::Unmarked));
}

#[test]
fn what_a_plan_chose_holds_until_the_object_tells_or_the_plan_is_given_up() {
    let mut cluster = cluster("pod p share=500\npod q share=600\npod b on=m share=100 gpus=0");
    let (p, q, n) = (PodUid("p".into()), PodUid("q".into()), at(&cluster, "n"));
    let mut overlay = Overlay::new(&mut cluster);
    assert!(!overlay.give_gpus(&p, numbers("1")), "it has no place");
    let bound = PodUid("b".into());
    assert!(!overlay.give_gpus(&bound, numbers("1")), "its object tells where it is");
    assert!(overlay.assume(&p, n) && overlay.give_gpus(&p, numbers("1")));
    assert!(overlay.assume(&q, n) && overlay.give_gpus(&q, numbers("2")));
    overlay.commit();
    assert_eq!(milli(&cluster, "n"), [1000, 500, 400, 1000]);
    fold(&mut cluster, "pod p share=500 labels=a=b");
    assert_eq!(milli(&cluster, "n"), [1000, 500, 400, 1000], "still on its way");
    cluster.forget(&q);
    assert_eq!((milli(&cluster, "n"), cluster.gpus_given(&q)), (vec![1000, 500, 1000, 1000], None));
    let before = cluster.nodes().slot(n).version;
    fold(&mut cluster, "pod p on=n share=500 gpus=1");
    assert_eq!((milli(&cluster, "n"), cluster.gpus_given(&p)), (vec![1000, 500, 1000, 1000], None));
    assert_ne!(before, cluster.nodes().slot(n).version, "labels went");
    fold(&mut cluster, "pod p on=n share=500 gpus=3");
    assert_eq!(milli(&cluster, "n"), [1000, 1000, 1000, 500], "the object is right");
}

#[test]
fn an_overlay_takes_back_what_it_gave_and_a_commit_past_a_victim_keeps_it() {
    let mut cluster = cluster("pod p share=500\npod v on=n share=700 gpus=0");
    let (p, v, n) = (PodUid("p".into()), PodUid("v".into()), at(&cluster, "n"));
    let version = cluster.nodes().slot(n).version;
    let mut overlay = Overlay::new(&mut cluster);
    assert!(overlay.assume(&p, n));
    let mark = overlay.checkpoint();
    assert!(overlay.give_gpus(&p, numbers("0")) && overlay.give_gpus(&p, numbers("1")));
    assert_eq!(milli(overlay.cluster(), "n"), [300, 500, 1000, 1000]);
    assert!(overlay.evict(&p));
    assert_eq!(milli(overlay.cluster(), "n"), [300, 1000, 1000, 1000]);
    overlay.rollback(mark);
    assert_eq!(overlay.cluster().gpus_given(&p), None);
    drop(overlay);
    assert_eq!((milli(&cluster, "n")[0], cluster.nodes().slot(n).version), (300, version));
    let mut overlay = Overlay::new(&mut cluster);
    assert!(overlay.evict(&v) && overlay.assume(&p, n) && overlay.give_gpus(&p, numbers("2")));
    overlay.commit();
    assert_eq!(milli(&cluster, "n"), [300, 1000, 500, 1000], "the victim holds its place");
}
