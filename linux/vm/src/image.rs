//! Snapshots: a booted kernel, with our program in it, ready for a script.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use paceline_experiment::{RunError, Unavailable};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bbr3;
use crate::machine::{MACHINE, Machine, SHARED, scratch, version};
use crate::wire::{LIBRARIES, LOAD, OBJECT, RECORDER, State};

/// The guest's program; empty where there is no backend.
const GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest"));
/// The program that registers a controller there.
const LOADER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/load"));
/// The recorder of the kernel's own controllers.
const RECORDER_OBJECT: &[u8] = include_bytes!("../../../python/paceline/kernel/paceline_stock.o");
/// The name of BBRv3 among the modules of an image.
pub(crate) const BBR3_MODULE: &str = "tcp_paceline_bbr3";
/// Locations of libbpf in the layouts of distributions.
const LIBBPF: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/libbpf.so.1",
    "/usr/lib64/libbpf.so.1",
    "/usr/lib/libbpf.so.1",
    "/lib64/libbpf.so.1",
];

/// Modules that every scenario needs.
const NEEDED: [&str; 3] = ["veth", "sch_htb", "sch_netem"];
/// Modules that some scenarios need, if the kernel has them.
const WANTED: [&str; 21] = [
    "sch_cake",
    "sch_codel",
    "sch_fq_codel",
    "sch_pie",
    "sch_red",
    "sch_ingress",
    "sch_prio",
    "cls_bpf",
    "cls_u32",
    "tcp_bbr",
    "tcp_bic",
    "tcp_cdg",
    "tcp_dctcp",
    "tcp_highspeed",
    "tcp_htcp",
    "tcp_hybla",
    "tcp_illinois",
    "tcp_scalable",
    "tcp_vegas",
    "tcp_westwood",
    "tcp_yeah",
];
/// The kernel's command line. What only protects the guest from itself is off, because each
/// instruction takes time on the path: mitigations, cleared memory, security modules, stacks at
/// random places; and so is what only observes it.
const COMMAND_LINE: &str = "console=ttyS0 quiet nokaslr random.trust_cpu=off panic=-1 \
                            mitigations=off init_on_alloc=0 hardened_usercopy=off lsm= audit=0 \
                            randomize_kstack_offset=off psi=0 GLIBC_TUNABLES=glibc.pthread.rseq=0";
const SNAPSHOT: &str = "snapshot";
const ABOUT: &str = "image.json";

/// The description of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The kernel's release.
    pub kernel: String,
    /// A SHA-256 of everything that it was made from, in hexadecimal.
    pub hash: String,
    /// The QEMU that it is for.
    pub qemu: String,
    /// A SHA-256 of our part: the machine, and the guest's program.
    #[serde(default)]
    pub program: String,
    /// The controllers and queues in it, by their modules.
    pub modules: Vec<String>,
    /// Its size on disk.
    pub size_bytes: u64,
}

/// The source of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Prepare {
    /// A bzImage; none: the newest installed one.
    pub kernel: Option<PathBuf>,
    /// The folder of its modules, as `make modules_install` creates it; none: next to the kernel,
    /// or in `/lib/modules`.
    pub modules: Option<PathBuf>,
}

impl Image {
    /// Its folder.
    fn folder(&self) -> Result<PathBuf, RunError> {
        Ok(cache()?.join(&self.hash))
    }

    /// The file of the machine's state.
    pub(crate) fn snapshot(&self) -> Result<PathBuf, RunError> {
        Ok(self.folder()?.join(SNAPSHOT))
    }

    /// Whether this QEMU and this Paceline can run it.
    ///
    /// # Errors
    /// What it is for instead.
    pub(crate) fn fits(&self, qemu: &str) -> Result<(), Unavailable> {
        let other = |whose: &str, here: &str| {
            let what = format!(
                "the snapshot of Linux {} is of {whose}, and this is {here}",
                self.kernel
            );
            Err(Unavailable::new(what, "paceline vm prepare"))
        };
        if self.qemu != qemu {
            return other(&self.qemu, qemu);
        }
        if self.program != ours() {
            return other("another version of Paceline", env!("CARGO_PKG_VERSION"));
        }
        Ok(())
    }

    /// Whether it has a module.
    pub(crate) fn has(&self, module: &str) -> bool {
        self.modules.iter().any(|known| known == module)
    }
}

/// A SHA-256 of the machine, of the guest's program and of the modules that each run needs.
fn ours() -> String {
    let mut hash = Sha256::new();
    let shared = SHARED.to_string();
    let machine = MACHINE.iter().chain(&NEEDED).copied();
    for text in machine.chain([COMMAND_LINE, &shared]) {
        hash.update(text);
        hash.update([0]);
    }
    for program in [GUEST, LOADER, bbr3::OBJECT, RECORDER_OBJECT] {
        hash.update((program.len() as u64).to_le_bytes());
        hash.update(program);
    }
    hexadecimal(&hash.finalize())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where snapshots are: `$XDG_CACHE_HOME/paceline/vm`.
fn cache() -> Result<PathBuf, RunError> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    match absolute("XDG_CACHE_HOME").or_else(home) {
        Some(base) => Ok(base.join("paceline").join("vm")),
        None => Err(Unavailable::new(
            "there is no place for snapshots",
            "set XDG_CACHE_HOME to a folder",
        )
        .into()),
    }
}

/// The snapshots of this user; the one prepared last, which runs use, comes first.
///
/// # Errors
/// If they cannot be read.
pub fn images() -> Result<Vec<Image>, RunError> {
    let cache = cache()?;
    let entries = match fs::read_dir(&cache) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RunError::io(format!("read {}", cache.display()))(error)),
    };
    let mut images = Vec::new();
    for entry in entries.filter_map(Result::ok) {
        let about = entry.path().join(ABOUT);
        let Ok(text) = fs::read(&about) else {
            continue;
        };
        let made = fs::metadata(&about).and_then(|about| about.modified()).ok();
        if let Ok(image) = serde_json::from_slice::<Image>(&text)
            && entry.file_name().to_str() == Some(&image.hash)
        {
            images.push((made, image));
        }
    }
    images.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.hash.cmp(&b.1.hash)));
    Ok(images.into_iter().map(|(_, image)| image).collect())
}

/// Deletes the snapshot with that hash; returns whether it existed.
///
/// # Errors
/// If its files cannot be deleted.
pub fn remove(hash: &str) -> Result<bool, RunError> {
    let Some(image) = images()?.into_iter().find(|image| image.hash == hash) else {
        return Ok(false);
    };
    let folder = image.folder()?;
    // Its own files by name, then the folder, which is removed only if nothing else is in it.
    for name in [ABOUT, SNAPSHOT] {
        let path = folder.join(name);
        fs::remove_file(&path).map_err(RunError::io(format!("delete {}", path.display())))?;
    }
    fs::remove_dir(&folder).map_err(RunError::io(format!("delete {}", folder.display())))?;
    Ok(true)
}

/// Creates a snapshot, unless exactly this one exists. `step` is called with the progress a few
/// times a second, and may stop it.
///
/// # Errors
/// Something is missing or failed.
pub fn prepare(asked: &Prepare, step: &mut dyn FnMut(&str) -> bool) -> Result<Image, RunError> {
    let mut step = |text: &str| match step(text) {
        true => Ok(()),
        false => Err(RunError::Interrupted),
    };
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(Unavailable {
            what: "a virtual machine needs Linux on x86-64".into(),
            hint: None,
        }
        .into());
    }
    let qemu = version()?;
    step("read the kernel")?;
    let source = Source::find(asked)?;
    let modules = source.modules()?;
    let bbr3 = match takes_bbr3(&source.release) {
        true => bbr3_files(),
        false => Vec::new(),
    };
    let initrd = initrd(&modules, &bbr3)?;
    let mut hash = Sha256::new();
    let kernel = source.read(&source.kernel)?;
    for part in [&kernel, &initrd] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    for text in [&qemu, &ours()] {
        hash.update(text);
        hash.update([0]);
    }
    let hash = hexadecimal(&hash.finalize());
    if let Some(known) = images()?.into_iter().find(|image| image.hash == hash) {
        // From now on it is the one prepared last.
        let about = known.folder()?.join(ABOUT);
        let touched = fs::File::options().write(true).open(&about);
        let touched = touched.and_then(|file| file.set_modified(SystemTime::now()));
        touched.map_err(RunError::io(format!("choose {}", about.display())))?;
        return Ok(known);
    }
    step("boot the kernel")?;
    let scratch = scratch()?;
    let initial = scratch.path().join("initrd");
    fs::write(&initial, &initrd).map_err(RunError::io("write the initial file system"))?;
    let (kernel, initial) = (text(&source.kernel)?, text(&initial)?);
    let arguments = [
        "-kernel",
        kernel,
        "-initrd",
        initial,
        "-append",
        COMMAND_LINE,
    ];
    let mut machine = Machine::start(&arguments)?;
    let state = machine.until_stopped(&mut |_| step("boot the kernel"))?;
    if state != State::Ready {
        return Err(RunError::Failed(format!(
            "the guest is {state:?}, and should be ready"
        )));
    }
    let mut known: Vec<String> = modules.iter().map(|module| module.name.clone()).collect();
    if machine.has_bbr3()? {
        known.push(BBR3_MODULE.to_owned());
    }
    step("save the machine's state")?;
    let cache = cache()?;
    let draft = cache.join(format!(".{hash}-{}", std::process::id()));
    fs::create_dir_all(&draft).map_err(RunError::io(format!("make {}", draft.display())))?;
    let kept = keep(machine, &draft, &cache, |size_bytes| Image {
        kernel: source.release.clone(),
        hash: hash.clone(),
        qemu: qemu.clone(),
        program: ours(),
        modules: known,
        size_bytes,
    });
    if kept.is_err() {
        // A draft contains only the files written above.
        let _ = fs::remove_dir_all(&draft);
    }
    kept
}

/// Writes the snapshot and its description next to the others; renames it last.
fn keep(
    machine: Machine,
    draft: &Path,
    cache: &Path,
    about: impl FnOnce(u64) -> Image,
) -> Result<Image, RunError> {
    let snapshot = draft.join(SNAPSHOT);
    machine.save(&snapshot)?;
    let size = fs::metadata(&snapshot)
        .map_err(RunError::io("look at the snapshot"))?
        .len();
    let image = about(size);
    let json = serde_json::to_vec_pretty(&image).map_err(io::Error::other);
    json.and_then(|json| fs::write(draft.join(ABOUT), json))
        .and_then(|()| match fs::rename(draft, cache.join(&image.hash)) {
            // Another process has made the same.
            Err(_) if cache.join(&image.hash).join(ABOUT).exists() => fs::remove_dir_all(draft),
            result => result,
        })
        .map_err(RunError::io("keep the snapshot"))?;
    Ok(image)
}

fn text(path: &Path) -> Result<&str, RunError> {
    let what = || RunError::Failed(format!("{} is not UTF-8", path.display()));
    // QEMU reads a comma as the end of a name.
    path.to_str()
        .filter(|text| !text.contains(','))
        .ok_or_else(what)
}

/// A kernel and its modules.
struct Source {
    kernel: PathBuf,
    modules: PathBuf,
    release: String,
}

/// A module's file.
struct Module {
    name: String,
    file: String,
    bytes: Vec<u8>,
}

/// How to get a kernel without installing one.
const GET: &str = "apt-get download $(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p') \
    && dpkg -x linux-image-*.deb kernel && paceline vm prepare --kernel kernel/boot/vmlinuz-*";

impl Source {
    fn find(asked: &Prepare) -> Result<Self, RunError> {
        let kernel = match &asked.kernel {
            Some(kernel) => kernel.clone(),
            None => newest("/boot").ok_or_else(|| {
                Unavailable::new("there is no kernel in /boot that can be read", GET)
            })?,
        };
        let bytes =
            fs::read(&kernel).map_err(RunError::io(format!("read {}", kernel.display())))?;
        let release = release(&bytes).ok_or_else(|| {
            let what = format!("{} is not a bzImage of Linux", kernel.display());
            Unavailable::new(what, "name a file such as /boot/vmlinuz-6.12.0-amd64")
        })?;
        let root = kernel.parent().and_then(Path::parent);
        let beside = root.map(|root| root.join("lib/modules"));
        let places = asked.modules.iter().cloned().chain(
            beside
                .into_iter()
                .chain([PathBuf::from("/lib/modules")])
                .map(|root| root.join(&release)),
        );
        let tried: Vec<PathBuf> = places.collect();
        let mut places = tried.iter();
        let modules = places.find(|place| place.join("kernel").is_dir()).cloned();
        let modules = modules.ok_or_else(|| {
            let places = tried.iter().map(|place| place.display().to_string());
            let places: Vec<_> = places.collect();
            let what = format!(
                "there are no modules of Linux {release} in {}",
                places.join(" or ")
            );
            Unavailable::new(what, "name their folder: --modules FOLDER")
        })?;
        Ok(Self {
            kernel,
            modules,
            release,
        })
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, RunError> {
        fs::read(path).map_err(RunError::io(format!("read {}", path.display())))
    }

    /// The modules that are required or optional, each after its dependencies.
    fn modules(&self) -> Result<Vec<Module>, RunError> {
        let mut files = Vec::new();
        walk(&self.modules.join("kernel"), &mut files)
            .map_err(RunError::io(format!("read {}", self.modules.display())))?;
        let builtin = fs::read_to_string(self.modules.join("modules.builtin")).unwrap_or_default();
        let builtin: BTreeSet<String> = builtin.lines().filter_map(module_name).collect();
        let mut chosen = Vec::new();
        for name in NEEDED.iter().chain(&WANTED) {
            let added = self.add(name, &files, &builtin, &mut chosen, 0)?;
            if !added && NEEDED.contains(name) {
                let what = format!("Linux {} has no module {name}", self.release);
                return Err(
                    Unavailable::new(what, "choose a kernel that has it: --kernel FILE").into(),
                );
            }
        }
        Ok(chosen)
    }

    fn add(
        &self,
        name: &str,
        files: &[PathBuf],
        builtin: &BTreeSet<String>,
        chosen: &mut Vec<Module>,
        depth: usize,
    ) -> Result<bool, RunError> {
        if chosen.iter().any(|module| module.name == name) {
            return Ok(true);
        }
        if builtin.contains(name) {
            // Built in: it is listed, but has no file to load.
            chosen.push(Module {
                name: name.into(),
                file: String::new(),
                bytes: Vec::new(),
            });
            return Ok(true);
        }
        let named = |path: &&PathBuf| path.to_str().and_then(module_name).as_deref() == Some(name);
        let Some(path) = files.iter().find(named).filter(|_| depth < 8) else {
            return Ok(false);
        };
        let bytes = self.read(path)?;
        let plain = unpacked(path, &bytes)?;
        for other in depends(&plain) {
            self.add(&other, files, builtin, chosen, depth + 1)?;
        }
        let file = format!("{name}.ko");
        chosen.push(Module {
            name: name.into(),
            file,
            bytes: plain,
        });
        Ok(true)
    }
}

/// A module, decompressed; distributions may have compressed it.
fn unpacked(path: &Path, bytes: &[u8]) -> Result<Vec<u8>, RunError> {
    let tool = match path.extension().and_then(|suffix| suffix.to_str()) {
        Some("xz") => "xz",
        Some("gz") => "gzip",
        Some("zst") => "zstd",
        _ => return Ok(bytes.to_vec()),
    };
    let mut command = Command::new(tool);
    command.args(["--decompress", "--stdout", "--"]).arg(path);
    let output = command.output();
    match output {
        Ok(output) if output.status.success() => Ok(output.stdout),
        _ => {
            let what = format!("{tool} cannot unpack {}", path.display());
            Err(Unavailable::new(what, format!("sudo apt install {tool}")).into())
        }
    }
}

/// The release in a kernel's image (Documentation/arch/x86/boot.rst: `kernel_version`).
fn release(image: &[u8]) -> Option<String> {
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let field = image.get(0x20e..0x210)?.try_into().ok();
    let at = field.map(u16::from_le_bytes)?;
    let text = image.get(usize::from(at) + 0x200..)?;
    let ends = |byte: &u8| *byte == 0 || *byte == b' ';
    let end = text.iter().take(200).position(ends)?;
    String::from_utf8(text.get(..end)?.to_vec()).ok()
}

/// The newest readable kernel of a folder.
fn newest(folder: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let kernels = entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("vmlinuz-")) && fs::File::open(path).is_ok()
    });
    kernels.max_by_key(|path| fs::metadata(path).and_then(|file| file.modified()).ok())
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => walk(&entry.path(), files)?,
            false => files.push(entry.path()),
        }
    }
    files.sort();
    Ok(())
}

/// "sch_htb" of "kernel/net/sched/sch_htb.ko.xz".
fn module_name(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?;
    let (name, _) = name.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

/// The dependencies of a module: `depends=` of its `.modinfo`.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let rest = module.get(at + KEY.len()..).unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(0);
    let list = String::from_utf8_lossy(rest.get(..end).unwrap_or_default()).into_owned();
    let names = list.split(',').filter(|name| !name.is_empty());
    names.map(|name| name.replace('-', "_")).collect()
}

/// Whether a kernel of that release accepts the object: since Linux 6.10 a BPF controller receives
/// each ACK with its flags.
fn takes_bbr3(release: &str) -> bool {
    let number = |text: &str| {
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        text.get(..digits).and_then(|digits| digits.parse().ok())
    };
    let mut parts = release.split('.').map(number);
    let version: (Option<u32>, Option<u32>) = (parts.next().flatten(), parts.next().flatten());
    version >= (Some(6), Some(10))
}

/// A file of the initial file system.
struct Extra {
    name: String,
    mode: u32,
    bytes: Vec<u8>,
}

/// The files that register BBRv3 in the guest or record the kernel's controllers: the objects, the
/// program that loads them, and this machine's libbpf with its dependencies. Empty if there is no
/// libbpf: then the guest can do neither.
fn bbr3_files() -> Vec<Extra> {
    let path = LIBBPF.iter().map(Path::new).find(|path| path.exists());
    libraries(path).unwrap_or_default()
}

fn libraries(libbpf: Option<&Path>) -> Option<Vec<Extra>> {
    let libbpf = libbpf?;
    let output = Command::new("ldd").arg(libbpf).output().ok()?;
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut files = vec![
        Extra {
            name: LOAD.into(),
            mode: PROGRAM,
            bytes: LOADER.to_vec(),
        },
        Extra {
            name: OBJECT.into(),
            mode: FILE,
            bytes: bbr3::OBJECT.to_vec(),
        },
        Extra {
            name: RECORDER.into(),
            mode: FILE,
            bytes: RECORDER_OBJECT.to_vec(),
        },
    ];
    let paths = needed(&listing);
    for path in std::iter::once(libbpf).chain(paths.iter().map(Path::new)) {
        let file = path.file_name()?.to_str()?;
        // The kernel starts a program with the linker at the path that the program names.
        let name = match file.starts_with("ld-linux") {
            true => format!("lib64/{file}"),
            false => format!("{LIBRARIES}/{file}"),
        };
        files.push(Extra {
            name,
            mode: PROGRAM,
            bytes: fs::read(path).ok()?,
        });
    }
    Some(files)
}

/// The files that `ldd` names: `NAME => PATH (0x...)`, or just the linker's path.
fn needed(listing: &str) -> Vec<String> {
    let path = |line: &str| {
        let line = line.trim();
        let line = line.split_once("=> ").map_or(line, |(_, path)| path);
        let path = line.split_whitespace().next()?;
        path.starts_with('/').then(|| path.to_owned())
    };
    listing.lines().filter_map(path).collect()
}

/// The modes of files in the initial file system.
const FOLDER: u32 = 0o40_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;

/// The initial file system (cpio, "newc": Documentation/driver-api/early-userspace/buffer-format.rst).
fn initrd(modules: &[Module], extra: &[Extra]) -> Result<Vec<u8>, RunError> {
    const DEVICE: u32 = 0o20_600;
    let mut archive = Archive::default();
    archive.add("dev", FOLDER, (0, 0), &[]);
    archive.add("dev/console", DEVICE, (5, 1), &[]);
    archive.add("modules", FOLDER, (0, 0), &[]);
    archive.add("init", PROGRAM, (0, 0), GUEST);
    let loaded = modules.iter().filter(|module| !module.file.is_empty());
    let files = loaded.clone().map(|module| format!("{}\n", module.file));
    let list: String = files.collect();
    archive.add("modules/list", FILE, (0, 0), list.as_bytes());
    for module in loaded {
        let name = format!("modules/{}", module.file);
        archive.add(&name, FILE, (0, 0), &module.bytes);
    }
    let folder = |file: &Extra| Some(file.name.split_once('/')?.0.to_owned());
    let folders: BTreeSet<String> = extra.iter().filter_map(folder).collect();
    for folder in folders {
        archive.add(&folder, FOLDER, (0, 0), &[]);
    }
    for file in extra {
        archive.add(&file.name, file.mode, (0, 0), &file.bytes);
    }
    archive.add("TRAILER!!!", 0, (0, 0), &[]);
    Ok(archive.bytes)
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.inode += 1;
        let (size, length) = (content.len() as u32, name.len() as u32 + 1);
        let (links, time, none) = (1, 0, 0);
        let fields = [
            self.inode, mode, none, none, links, time, size, none, none, device.0, device.1,
            length, none,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_needs_of_modules() {
        let name = |path| module_name(path).unwrap();
        assert_eq!(name("kernel/net/sched/sch_htb.ko.xz"), "sch_htb");
        assert_eq!(name("kernel/a-b.ko"), "a_b");
        assert_eq!(module_name("modules.dep"), None);
        assert_eq!(depends(b"x\0depends=a-b,c\0vermagic=6"), ["a_b", "c"]);
        assert!(depends(b"x\0depends=\0").is_empty() && depends(b"").is_empty());
    }

    #[test]
    fn kernels_that_take_bbr3() {
        for release in ["6.10.0", "6.12.117+deb12-cloud-amd64", "6.18.44-fc", "7.0"] {
            assert!(takes_bbr3(release), "{release}");
        }
        for release in ["6.9.12", "6.1.0-56-cloud-amd64", "5.15.0", "", "x.y", "6"] {
            assert!(!takes_bbr3(release), "{release}");
        }
    }

    #[test]
    fn libraries_are_those_that_ldd_names() {
        let listing = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibelf.so.1 => /lib/x/libelf.so.1 (0x00007f)\n\
                    \tlibgone.so.1 => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            needed(listing),
            ["/lib/x/libelf.so.1", "/lib64/ld-linux-x86-64.so.2"]
        );
    }

    #[test]
    fn the_release_is_where_the_boot_protocol_says() {
        let mut image = vec![0; 0x300];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x40_u16.to_le_bytes());
        image[0x240..0x248].copy_from_slice(b"6.12.0 x");
        assert_eq!(release(&image).as_deref(), Some("6.12.0"));
        image[0x202] = 0;
        assert_eq!(release(&image), None);
        assert_eq!(release(b"short"), None);
    }

    /// The first file of an archive, by hand: a header of 110 bytes, then "a", zeros to 112, then
    /// content.
    #[test]
    fn an_archive_is_padded() {
        let mut archive = Archive::default();
        archive.add("a", 0o100_644, (0, 0), b"xyz");
        assert_eq!(&archive.bytes[..14], b"07070100000001");
        assert_eq!(&archive.bytes[54..62], b"00000003");
        assert_eq!(&archive.bytes[110..], b"a\0xyz\0");
        assert_eq!(archive.bytes.len(), 116);
    }
}
