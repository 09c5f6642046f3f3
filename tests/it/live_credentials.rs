//! Rotated credentials are picked up by the running binary: token files, plugins, certificates.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use berth_faults::proxy::{Exchange, Fault, Injection, Proxy, Requests, Rule};
use berth_stand::{ADMIN, ApiClient, Options, Stand, User, wait_for};
use serde_json::{Value, json};

use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::https::Ca;
use crate::support::objects::{bound, create, gpu_node, gpu_pod};
use crate::support::tunnel::Tunnels;

const OTHER: &str = "other";

fn two_users() -> Options {
    let other = User { name: OTHER.to_owned(), groups: vec!["system:masters".to_owned()] };
    Options { users: vec![other], ..Options::default() }
}

/// A stand behind a proxy that can tell its users apart.
struct Scene {
    stand: Stand,
    api: ApiClient,
    proxy: Proxy,
    kubeconfig: Value,
}

impl Scene {
    fn start() -> Option<Scene> {
        let stand = Stand::start_or_skip(&two_users())?;
        let api = stand.client();
        let proxy = Proxy::start(&stand).expect("a proxy");
        proxy.kubeconfig(&stand, OTHER).expect("a kubeconfig");
        let path = proxy.kubeconfig(&stand, ADMIN).expect("a kubeconfig");
        create(&api, &gpu_node("n-1", 8));
        let kubeconfig = read(&path);
        Some(Scene { stand, api, proxy, kubeconfig })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.stand.folder().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, text).expect("it is written");
        path
    }

    /// Starts Berth as who `user` of a kubeconfig is.
    fn berth(&self, user: Value) -> Berth {
        let mut kubeconfig = self.kubeconfig.clone();
        kubeconfig["users"][0]["user"] = user;
        let path = self.write("kubeconfig-of-berth", &kubeconfig.to_string());
        Berth::start_with(self.stand.folder(), &path, FAST, &[])
    }

    fn bind(&self, pod: &str) {
        create(&self.api, &gpu_pod(pod, 0));
        bound(&self.api, pod);
    }

    /// From now on the user's token is worth nothing.
    fn revoke(&self, user: &str) -> Injection {
        let refuse = Fault::Refuse { status: 401, retry_after_s: None };
        self.proxy.inject(Rule::on(Requests::all().user(user)).then(refuse))
    }

    fn n_binds_by(&self, user: &str) -> usize {
        self.proxy
            .count(0, |it: &Exchange| it.asked.user == user && it.asked.is_bind() && it.forwarded)
    }
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("it is there")).expect("JSON")
}

#[test]
fn a_rotated_token_file_is_read_again() {
    let Some(scene) = Scene::start() else { return };
    // As an editor or `kubectl create token >file` leaves it: with a newline.
    let file = scene.write("token", &format!("{}\n", scene.stand.token(ADMIN)));
    let berth = scene.berth(json!({"tokenFile": file}));
    scene.bind("before");
    assert_eq!((scene.n_binds_by(ADMIN), scene.n_binds_by(OTHER)), (1, 0));
    scene.write("token", &format!("{}\n", scene.stand.token(OTHER)));
    let _revoked = scene.revoke(ADMIN);
    scene.bind("after");
    assert_eq!((scene.n_binds_by(ADMIN), scene.n_binds_by(OTHER)), (1, 1));
    assert!(berth.log().contains("credentials have changed"), "{}", berth.log());
    assert_eq!(berth.terminate(), Some(0));
}

/// As a kubelet mounts it: files behind a link that is moved when the token is rotated.
struct ServiceAccount {
    /// The outermost folder that was made, and goes again.
    made: PathBuf,
    folder: PathBuf,
}

impl ServiceAccount {
    /// Mounts it where every pod has it, which is possible where that is ours to make. Otherwise it
    /// says that the test is skipped.
    fn mount_or_skip(ca_pem: &str, token: &str) -> Option<ServiceAccount> {
        let folder = PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount");
        let absent = folder.ancestors().take_while(|folder| !folder.exists()).last();
        let made = absent.map(Path::to_path_buf);
        let Some(made) = made.filter(|_| fs::create_dir_all(&folder).is_ok()) else {
            eprintln!("skipped a_pod_uses_its_service_account: {folder:?} is not ours to make");
            return None;
        };
        let account = ServiceAccount { made, folder };
        account.rotate(ca_pem, token, "first");
        for file in ["token", "ca.crt", "namespace"] {
            let to = Path::new("..data").join(file);
            std::os::unix::fs::symlink(to, account.folder.join(file)).expect("a link");
        }
        Some(account)
    }

    fn rotate(&self, ca_pem: &str, token: &str, version: &str) {
        let data = self.folder.join(format!("..{version}"));
        fs::create_dir(&data).expect("a folder");
        let files = [("token", token), ("ca.crt", ca_pem), ("namespace", "berth-system")];
        files.iter().for_each(|(name, text)| fs::write(data.join(name), text).expect("a file"));
        let link = self.folder.join("..data_tmp");
        std::os::unix::fs::symlink(format!("..{version}"), &link).expect("a link");
        fs::rename(link, self.folder.join("..data")).expect("the link is moved");
    }
}

impl Drop for ServiceAccount {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.made);
    }
}

#[test]
fn a_pod_uses_its_service_account() {
    let Some(scene) = Scene::start() else { return };
    let ca = fs::read_to_string(scene.proxy.folder().join("ca.crt")).expect("a CA");
    let (ca, token) = (ca.as_str(), |user| scene.stand.token(user));
    let Some(account) = ServiceAccount::mount_or_skip(ca, &token(ADMIN)) else { return };
    let server = scene.kubeconfig["clusters"][0]["cluster"]["server"].as_str().expect("a server");
    let (host, port) =
        server.trim_start_matches("https://").rsplit_once(':').expect("a host and its port");
    let variables =
        [format!("KUBERNETES_SERVICE_HOST={host}"), format!("KUBERNETES_SERVICE_PORT={port}")];
    let flags = ["--leader-elect=false", "--secure-port=0", "-v=5"];
    let berth = Berth::start_with_env(&scene.file("berth.log"), &variables, &flags);
    scene.bind("before");
    assert_eq!((scene.n_binds_by(ADMIN), scene.n_binds_by(OTHER)), (1, 0));
    account.rotate(ca, &token(OTHER), "second");
    let _revoked = scene.revoke(ADMIN);
    scene.bind("after");
    assert_eq!((scene.n_binds_by(ADMIN), scene.n_binds_by(OTHER)), (1, 1));
    assert!(berth.log().contains("credentials have changed"), "{}", berth.log());
    assert_eq!(berth.terminate(), Some(0));
}

#[test]
fn a_plugin_is_run_again_when_its_token_expires_and_when_it_is_refused() {
    let Some(scene) = Scene::start() else { return };
    let issue = |user: &str, expires: Option<Duration>| {
        let expires = expires
            .map(|after| jiff::Timestamp::try_from(SystemTime::now() + after).expect("a time"));
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {"token": scene.stand.token(user), "expirationTimestamp": expires},
        });
        scene.write("credential", &credential.to_string())
    };
    let credential = issue(ADMIN, Some(Duration::from_secs(4)));
    let script = scene.write("plugin.sh", &format!("cat {}\n", credential.display()));
    let berth = scene.berth(json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": [script],
        "interactiveMode": "Never",
    }}));
    scene.bind("before");
    assert_eq!((scene.n_binds_by(ADMIN), scene.n_binds_by(OTHER)), (1, 0));
    issue(OTHER, None);
    // Nobody refuses the first one: its time is up.
    let mut n = 0;
    wait_for(SOON, "the other token is used", || {
        n += 1;
        scene.bind(&format!("expired-{n}"));
        (scene.n_binds_by(OTHER) > 0).then_some(())
    });
    issue(ADMIN, None);
    let by_admin = scene.n_binds_by(ADMIN);
    let _revoked = scene.revoke(OTHER);
    scene.bind("refused");
    assert_eq!(scene.n_binds_by(ADMIN), by_admin + 1);
    assert_eq!(berth.terminate(), Some(0));
}

/// Writes a client certificate and its key, as the kubeconfig names them.
fn issue(ca: &Ca, folder: &Path, name: &str, life: Duration) {
    let identity = ca.sign_for(name, "system:masters", life);
    fs::write(folder.join("client.key"), identity.key).expect("it is written");
    fs::write(folder.join("client.crt"), identity.chain).expect("it is written");
}

#[test]
fn a_rotated_client_certificate_is_shown_once_the_old_one_is_refused() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client-certificates");
    fs::create_dir_all(&folder).expect("a folder");
    let ca = Ca::new("clients");
    fs::write(folder.join("ca.crt"), ca.pem()).expect("it is written");
    let flags = vec![format!("--client-ca-file={}", folder.join("ca.crt").display())];
    let options = Options { apiserver_flags: flags, ..Options::default() };
    let Some(stand) = Stand::start_or_skip(&options) else { return };
    let api = stand.client();
    create(&api, &gpu_node("n-1", 8));
    let life = Duration::from_secs(8);
    let expires = SystemTime::now() + life;
    issue(&ca, &folder, "first", life);
    let mut kubeconfig = read(&stand.kubeconfig_path(ADMIN).expect("a kubeconfig"));
    kubeconfig["users"][0]["user"] = json!({
        "client-certificate": folder.join("client.crt"),
        "client-key": folder.join("client.key"),
    });
    let path = stand.folder().join("kubeconfig-of-berth");
    fs::write(&path, kubeconfig.to_string()).expect("it is written");
    let berth = Berth::start_with(stand.folder(), &path, FAST, &[]);
    create(&api, &gpu_pod("before", 0));
    bound(&api, "before");
    issue(&ca, &folder, "second", Duration::from_secs(3600));
    let past = || (SystemTime::now() > expires + Duration::from_secs(1)).then_some(());
    wait_for(SOON, "the first certificate expires", past);
    create(&api, &gpu_pod("after", 0));
    bound(&api, "after");
    assert!(berth.log().contains("credentials have changed"), "{}", berth.log());
    assert_eq!(berth.terminate(), Some(0));
}

/// A proxy that Berth is told of by `proxy-url` is used for everything.
#[test]
fn the_way_to_the_server_may_lead_through_a_proxy() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    create(&api, &gpu_node("n-1", 8));
    let tunnels = Tunnels::start();
    let mut kubeconfig = read(&stand.kubeconfig_path(ADMIN).expect("a kubeconfig"));
    kubeconfig["clusters"][0]["cluster"]["proxy-url"] =
        json!(format!("http://user:secret@{}", tunnels.address()));
    let path = stand.folder().join("kubeconfig-of-berth");
    fs::write(&path, kubeconfig.to_string()).expect("it is written");
    let berth = Berth::start_with(stand.folder(), &path, FAST, &[]);
    create(&api, &gpu_pod("a", 0));
    bound(&api, "a");
    let asked = tunnels.asked();
    let server = stand.url().trim_start_matches("https://").to_owned();
    assert!(!asked.is_empty());
    for request in asked {
        assert!(request.starts_with(&format!("CONNECT {server} HTTP/1.1\r\n")), "{request}");
        // user:secret
        let lower = request.to_lowercase();
        assert!(lower.contains("proxy-authorization: basic dxnlcjpzzwnyzxq="), "{request}");
    }
    assert!(!berth.log().contains("secret"));
    assert_eq!(berth.terminate(), Some(0));
}
