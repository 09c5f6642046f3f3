//! Texts that tell how GPUs are linked, good ones and bad ones.

use berth_core::types::GpuSet;

use super::*;

fn read(text: &str) -> Arc<NodeTopology> {
    Topologies::default().of_text(text).unwrap()
}

fn problem(text: &str) -> String {
    Topologies::default().of_text(text).unwrap_err().to_string()
}

fn islands(topology: &NodeTopology) -> Vec<Vec<usize>> {
    topology.islands().iter().map(|set| set.iter().collect()).collect()
}

/// Two pairs of bridged cards, one pair and one NIC on each of two sockets.
const BRIDGED: &str = "
\t\u{1b}[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m
GPU0\t X \tNV12\tSYS\tSYS\tPXB\tSYS\t0-31,64-95\t0\t\tN/A
GPU1\tNV12\t X \tSYS\tSYS\tPXB\tSYS\t0-31,64-95\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tNV12\tSYS\tPIX\t32-63,96-127\t1\t\tN/A
GPU3\tSYS\tSYS\tNV12\t X \tSYS\tNODE\t32-63,96-127\t1\t\tN/A
NIC0\tPXB\tPXB\tSYS\tSYS\t X \tSYS
NIC1\tSYS\tSYS\tPIX\tNODE\tSYS\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes

NIC Legend:

  NIC0: mlx5_0
";

#[test]
fn what_nvidia_smi_prints_is_understood() {
    let topology = read(BRIDGED);
    assert_eq!(islands(&topology), [[0, 1], [2, 3]]);
    assert_eq!((topology.bandwidth(0, 1), topology.bandwidth(1, 2)), (600, 16));
    assert_eq!([0, 1, 2, 3].map(|gpu| topology.cell(gpu)), [Some(0), Some(0), Some(1), Some(1)]);
    // The NIC tells that the first two hang on one root.
    assert_eq!([0, 1, 2, 3].map(|gpu| topology.root(gpu)), [Some(0), Some(0), Some(1), None]);
    // As it is when somebody has pasted it without tabs.
    assert_eq!(read(&BRIDGED.replace('\t', "  ")), topology);
}

#[test]
fn ways_without_nvlink_are_told_apart() {
    let matrix = "    GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 CPU Affinity NUMA Affinity
        GPU0 X PIX PXB PHB NODE SYS 0-31 0
        GPU1 PIX X PXB PHB NODE SYS 0-31 0
        GPU2 PXB PXB X PHB NODE SYS 0-31 0
        GPU3 PHB PHB PHB X NODE SYS 0-31 0
        GPU4 NODE NODE NODE NODE X SYS 0-31 0
        GPU5 SYS SYS SYS SYS SYS X 32-63 1";
    let topology = read(matrix);
    let first: Vec<u16> = (1..6).map(|to| topology.bandwidth(0, to)).collect();
    assert_eq!(first, [32, 28, 24, 20, 16]);
    assert_eq!(topology.islands().len(), 2);
}

#[test]
fn the_short_form_says_the_same() {
    let topology = read("nvlink 0-1:600 2-3:600; numa 0-1 2,3\npcie 0,1");
    assert_eq!(islands(&topology), [[0, 1], [2, 3]]);
    assert_eq!((topology.bandwidth(2, 3), topology.bandwidth(0, 2)), (600, 16));
    assert_eq!((topology.cell(3), topology.root(1), topology.root(2)), (Some(1), Some(0), None));
    let halves = read("nvswitch 0-7:600 8-15:600; numa 0-7 8-15");
    assert_eq!(islands(&halves), [(0..8).collect::<Vec<_>>(), (8..16).collect()]);
    let plain = read("gpus 4; numa 0-1 2-3; pcie 0,1");
    assert_eq!([plain.bandwidth(0, 1), plain.bandwidth(2, 3), plain.bandwidth(1, 2)], [32, 20, 16]);
    assert_eq!(read("gpus 72").len(), 72);
}

#[test]
fn a_way_goes_through_switches_but_not_through_gpus() {
    let chain = read("nvlink 0-1:100 1-2:100");
    assert_eq!(chain.bandwidth(0, 2), 16);
    let switched = read("nvswitch 0-1:100 1-2:50");
    assert_eq!((switched.bandwidth(0, 1), switched.bandwidth(0, 2)), (100, 16));
}

#[test]
fn bad_texts_are_told_with_what_to_change() {
    let told = |text: &str, expected: &str| {
        let problem = problem(text);
        assert!(problem.contains(expected), "{text:.80}: {problem}");
    };
    told("", "names no GPUs; write clauses of gpus, nvlink");
    told("links 0-1", "\"links\" is none of gpus, nvlink, nvswitch, numa or pcie");
    told("nvlink 0-1", "nvlink \"0-1\": write GB/s after a colon, from 33 to 20000");
    told("nvlink 0-1:12", "write GB/s");
    told("nvlink 0-0:600", "write two different GPUs");
    told("nvlink 0-72:600", "from 0 to 71");
    told("numa 0-3 3-7", "numa \"3-7\": GPU 3 is in a group already; name it once");
    told("numa 3-0", "write GPUs");
    told("gpus 73", "up to 72 GPUs");
    told(&BRIDGED.replace("PIX", "PIC"), "row GPU2, column NIC1: \"PIC\" is none of X, NV1");
    told(&BRIDGED.replacen("NV12", "SYS", 1), "row GPU1 and row GPU0 tell different things");
    told(&BRIDGED.replacen("GPU2\tSYS", "GPU9\tSYS", 1), "has no row for GPU2; copy all lines");
    told("GPU0 GPU1 CPU Affinity\nGPU0 X", "row GPU0 has 1 of 2 columns");
    told("GPU0 GPU2\nGPU0 X SYS", "the header has GPU2 where GPU1 is to be");
    told("topo: GPU0 GPU1", "no header line");
    told(&BRIDGED.replace("GPU1\tNV12", "GPU0\tNV12"), "two rows for GPU0");
}

#[test]
fn a_text_of_a_megabyte_is_not_looked_at() {
    let text = "nvlink 0-1:600 ".repeat(70_000);
    assert!(text.len() > 1_000_000);
    assert!(problem(&text).contains("more than the 128 KiB that are read"));
    // The longest that is read, of each kind, is bounded by the number of GPUs.
    assert_eq!(read(&"nvlink 0-1:600\n".repeat(8_000)).len(), 2);
    let header: String = (0..20_000).map(|at| format!("GPU{at} ")).collect();
    assert!(problem(&header[..100_000]).contains("up to 72"));
}

#[test]
fn a_text_is_read_once_and_equal_nodes_share_one() {
    let mut topologies = Topologies::default();
    let first = topologies.of_text("nvlink 0-1:600").unwrap();
    assert!(Arc::ptr_eq(&first, &topologies.of_text("nvlink 0-1:600").unwrap()));
    assert!(Arc::ptr_eq(&first, &topologies.of_text("nvlink 1-0:600").unwrap()));
    assert!(topologies.of_text("x").is_err());
    assert_eq!(topologies.texts.len(), 3);
    topologies.purge();
    assert_eq!(topologies.texts.len(), 2);
    drop(first);
    topologies.texts.pop_first();
    topologies.purge();
    assert_eq!(topologies.texts.len(), 0);
}

#[test]
fn products_are_known_where_they_leave_no_choice() {
    let of = |product: &str, count: &str| {
        let labels = vec![(PRODUCT.into(), product.into()), (COUNT.into(), count.into())];
        Topologies::default().of_labels(&Labels::new(labels))
    };
    let mesh = of("Tesla-V100-SXM2-32GB", "8").unwrap();
    // Every GPU has six links, four of the pairs none.
    let links: Vec<u16> =
        (0..8).map(|gpu| mesh.row(gpu).iter().filter(|gbs| **gbs > 32).sum()).collect();
    assert_eq!(links, [300; 8]);
    assert_eq!((mesh.bandwidth(0, 3), mesh.bandwidth(0, 1), mesh.bandwidth(0, 5)), (100, 50, 16));
    let hopper = of("NVIDIA-H100-80GB-HBM3", "8").unwrap();
    assert_eq!((hopper.islands(), hopper.cell(4)), (&[GpuSet::first(8)][..], Some(1)));
    assert_eq!(of("NVIDIA-A100-SXM4-40GB", "4").unwrap().bandwidth(3, 0), 200);
    assert_eq!(of("NVIDIA-GB200", "72").unwrap().len(), 72);
    for (product, count) in [
        ("NVIDIA-H100-80GB-HBM3-SHARED", "16"),
        ("NVIDIA-H100-80GB-HBM3", "4"),
        ("NVIDIA-H200-NVL", "8"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "56"),
        ("NVIDIA-L40S", "8"),
        ("NVIDIA-H100-PCIe", "2"),
    ] {
        assert!(of(product, count).is_none(), "{product}");
    }
}
