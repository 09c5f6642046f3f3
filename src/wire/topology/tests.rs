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

/// What a DGX H100 prints: eight GPUs on NVSwitches, each with a card for the network of its own, and two
/// cards for storage.
fn dgx_h100() -> String {
    let mut names: Vec<String> = (0..8).map(|at| format!("GPU{at}")).collect();
    names.extend((0..10).map(|at| format!("NIC{at}")));
    // GPUs 0 to 3 are on the first socket, and with them NICs 0 to 4, of which NIC2 is for storage.
    let side = |at: usize| match at {
        0..8 => at / 4,
        _ => (at - 8) / 5,
    };
    let own = |gpu: usize| 8 + [0, 1, 3, 4, 5, 6, 8, 9][gpu];
    let code = |a: usize, b: usize| match (a.min(b), a.max(b)) {
        (a, b) if a == b => " X ",
        (_, b) if b < 8 => "NV18",
        (a, b) if a < 8 && own(a) == b => "PIX",
        (a, b) if side(a) == side(b) => "NODE",
        _ => "SYS",
    };
    let header = "CPU Affinity\tNUMA Affinity\tGPU NUMA ID";
    let mut text = format!("\t\u{1b}[4m{}\t{header}\u{1b}[0m\n", names.join("\t"));
    for (row, name) in names.iter().enumerate() {
        let codes: Vec<&str> = (0..names.len()).map(|column| code(row, column)).collect();
        text += &format!("{name}\t{}", codes.join("\t"));
        let cpus = ["0-55,112-167\t0\t\tN/A", "56-111,168-223\t1\t\tN/A"];
        text += &if row < 8 { format!("\t{}\n", cpus[side(row)]) } else { "\t\t\t\t\n".into() };
    }
    text +=
        "\nLegend:\n\n  X    = Self\n  PIX  = Connection traversing at most a single PCIe bridge\n";
    text += "  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC Legend:\n\n";
    let called = [0, 3, 1, 4, 5, 6, 9, 7, 10, 11];
    text += &(0..10).map(|at| format!("  NIC{at}: mlx5_{}\n", called[at])).collect::<String>();
    text
}

#[test]
fn network_cards_have_the_names_of_the_legend_and_how_near_they_are() {
    let topology = read(&dgx_h100());
    assert_eq!((topology.len(), topology.nics().len()), (8, 10));
    assert_eq!((topology.bandwidth(0, 7), topology.islands().len()), (900, 1));
    let nic = |at: usize| (topology.nics()[at].name.as_str(), topology.nics()[at].gbs.to_vec());
    assert_eq!(nic(1), ("mlx5_3", vec![20, 32, 20, 20, 16, 16, 16, 16]));
    assert_eq!(nic(2), ("mlx5_1", vec![20, 20, 20, 20, 16, 16, 16, 16]));
    assert_eq!(nic(9), ("mlx5_11", vec![16, 16, 16, 16, 20, 20, 20, 32]));
    // Without their rows the columns say it, without a legend they are called as these.
    let columns: Vec<String> = dgx_h100()
        .lines()
        .filter(|line| !line.contains("NIC") || line.contains("GPU0"))
        .map(str::to_owned)
        .collect();
    let bare = read(&columns.join("\n"));
    assert_eq!(bare.nics()[9].gbs, topology.nics()[9].gbs);
    assert_eq!(bare.nics()[9].name, "NIC9");

    let bridged = read(BRIDGED);
    let near: Vec<&[u16]> = bridged.nics().iter().map(|nic| &*nic.gbs).collect();
    assert_eq!(near, [[28, 28, 16, 16], [16, 16, 32, 20]]);
    let names: Vec<&str> = bridged.nics().iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["mlx5_0", "NIC1"]);
}

#[test]
fn the_short_form_has_a_word_for_network_cards() {
    let topology =
        read("nvswitch 0-3:900; nic mlx5_0:0-1 mlx5_1:2@pxb mlx5_1:3@node\nnic 0000:1b:00.0:3@phb");
    let nics: Vec<(&str, &[u16])> =
        topology.nics().iter().map(|nic| (nic.name.as_str(), &*nic.gbs)).collect();
    let near: [(&str, &[u16]); 3] = [
        ("mlx5_0", &[32, 32, 16, 16]),
        ("mlx5_1", &[16, 16, 28, 20]),
        ("0000:1b:00.0", &[16, 16, 16, 24]),
    ];
    assert_eq!(nics, near);
    // That both are near to one card says nothing of the two.
    assert_eq!(read("gpus 3; nic a:0-1").bandwidth(0, 1), 16);
}

#[test]
fn bad_texts_are_told_with_what_to_change() {
    let told = |text: &str, expected: &str| {
        let problem = problem(text);
        assert!(problem.contains(expected), "{text:.80}: {problem}");
    };
    told("", "names no GPUs; write clauses of gpus, nvlink");
    told("links 0-1", "\"links\" is none of gpus, nvlink, nvswitch, numa, pcie or nic");
    told("nvlink 0-1", "nvlink \"0-1\": write GB/s after a colon, from 33 to 20000");
    told("nvlink 0-1:12", "write GB/s");
    told("nvlink 0-0:600", "write two different GPUs");
    told("nvlink 0-72:600", "from 0 to 71");
    told("numa 0-3 3-7", "numa \"3-7\": GPU 3 is in a group already; name it once");
    told("numa 3-0", "write GPUs");
    told("gpus 73", "up to 72 GPUs");
    told(&BRIDGED.replace("PIX", "PIC"), "row GPU2, column NIC1: \"PIC\" is none of X, PIX");
    told(&BRIDGED.replacen("NV12", "NVX", 1), "row GPU0, column GPU1: \"NVX\" is none of X, NV1");
    told(&BRIDGED.replacen("NV12", "SYS", 1), "row GPU1 and row GPU0 tell different things");
    told(&BRIDGED.replacen("GPU2\tSYS", "GPU9\tSYS", 1), "has no row for GPU2; copy all lines");
    told("GPU0 GPU1 CPU Affinity\nGPU0 X", "row GPU0 has 1 of 2 columns");
    told("GPU0 GPU2\nGPU0 X SYS", "the header has GPU2 where GPU1 is to be");
    told("topo: GPU0 GPU1", "no header line");
    told(&BRIDGED.replace("GPU1\tNV12", "GPU0\tNV12"), "two rows for GPU0");
    told("nic mlx5_0", "nic \"mlx5_0\": write a NIC's name and the GPUs near it after a colon");
    told("nic :0", "write a NIC's name");
    told(&format!("nic {}:0", "n".repeat(64)), "write a NIC's name");
    told("nic mlx5_0:", "write GPUs from 0 to 71");
    told("nic mlx5_0:0@near", "after @ write pix, pxb, phb or node");
    told("nic mlx5_0:0-1 mlx5_0:1@node", "how near GPU 1 is was said already");
    let many: String = (0..73).map(|at| format!("nic n{at}:0;")).collect();
    told(&many, "nic \"n72:0\": a node has up to 72 NICs");
    told(&BRIDGED.replacen("PXB", "NV12", 1), "row GPU0, column NIC0: \"NV12\" is none of X, PIX");
    told(&BRIDGED.replacen("NODE", "SYS", 1), "row NIC1 and row GPU3 tell different things");
    told(
        &BRIDGED.replace("NIC0: mlx5_0", "NIC7: mlx5_0"),
        "the legend has NIC7, which is no column",
    );
    told(&format!("{BRIDGED}\n NIC0: mlx5_1"), "the legend has NIC0 twice; keep one");
    told(&format!("{BRIDGED}\n NIC1: mlx5_0"), "the legend calls NIC0 and NIC1 \"mlx5_0\"");
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
