//! Disks, and the controllers of disks and of networks. Models and drivers, never serial numbers, WWNs or hardware addresses.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde_json::Value;

use super::facts::{Facts, object};
use super::network::Ask;
use crate::machine::Root;

const BLOCK: &str = "/sys/block";
const PCI: &str = "/sys/bus/pci/devices";
const SCSI_HOSTS: &str = "/sys/class/scsi_host";
/// `/sys/block/*/size` counts in these, whatever the disk's own are.
const SECTOR_BYTES: u64 = 512;

pub(super) fn gather(facts: &mut Facts<'_>, ask: Ask<'_>) {
    let root = facts.root;
    let names = pci_names(ask);
    let disks: Vec<Value> = root.names(BLOCK).iter().filter_map(|name| disk(root, name)).collect();
    facts.add("disks", BLOCK, (!disks.is_empty()).then_some(disks));
    let source = format!("{PCI}/*/class, `lspci`");
    let controllers: Vec<Value> =
        root.names(PCI).iter().filter_map(|address| controller(root, address, &names)).collect();
    facts.add("controllers", &source, (!controllers.is_empty()).then_some(controllers));
    let hosts = root.names(SCSI_HOSTS).into_iter();
    let hosts: Vec<String> =
        hosts.filter_map(|host| root.text(&format!("{SCSI_HOSTS}/{host}/proc_name"))).collect();
    facts.add("scsi_hosts", &format!("{SCSI_HOSTS}/*/proc_name"), (!hosts.is_empty()).then_some(hosts));
}

/// A disk; `None` without a device of its own: loops, memory, volumes made of other disks.
fn disk(root: &Root, name: &str) -> Option<Value> {
    let base = format!("{BLOCK}/{name}");
    let text = |file: &str| root.text(&format!("{base}/{file}")).filter(|text| !text.is_empty());
    let device = format!("{base}/device");
    let has_device = root.link(&device).is_some() || !root.names(&device).is_empty();
    let bytes = root.number(&format!("{base}/size")).filter(|sectors| *sectors > 0)? * SECTOR_BYTES;
    let controller = root.link(&base).and_then(|path| pci_address(&path));
    if !has_device {
        return None;
    }
    object([
        ("name", Some(name.into())),
        ("bytes", Some(bytes.into())),
        ("model", text("device/model").map(Value::from)),
        // Of a virtual disk it is a number.
        ("vendor", text("device/vendor").filter(|vendor| !vendor.starts_with("0x")).map(Value::from)),
        // Virtual disks say so, too.
        ("rotational", root.number(&format!("{base}/queue/rotational")).map(|number| (number == 1).into())),
        ("scheduler", text("queue/scheduler").map(|text| chosen(&text).into())),
        ("driver", driver_of(root, &base).map(Value::from)),
        ("controller", controller.map(Value::from)),
    ])
}

/// `mq-deadline` of `none [mq-deadline] kyber`.
fn chosen(schedulers: &str) -> String {
    let chosen = schedulers.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.unwrap_or(schedulers).to_owned()
}

/// The driver of a disk, or of what it hangs on: NVMe namespaces have none of their own.
fn driver_of(root: &Root, base: &str) -> Option<String> {
    ["device/driver", "device/device/driver"]
        .iter()
        .find_map(|link| root.link_name(&format!("{base}/{link}")))
}

/// The last PCI device on the way to another device.
fn pci_address(path: &Path) -> Option<String> {
    let mut names = path.components().filter_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    names.rfind(|name| is_pci_address(name)).map(str::to_owned)
}

/// `0000:00:1f.2`.
fn is_pci_address(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len() == 12
        && bytes.iter().enumerate().all(|(place, byte)| match place {
            4 | 7 => *byte == b':',
            10 => *byte == b'.',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// A controller of disks or of networks, by its class; `None` of any other device.
fn controller(root: &Root, address: &str, names: &BTreeMap<String, String>) -> Option<Value> {
    let base = format!("{PCI}/{address}");
    let text = |file: &str| root.text(&format!("{base}/{file}"));
    let class = u32::from_str_radix(text("class")?.strip_prefix("0x")?, 16).ok()?;
    let kind = kind(class >> 8)?;
    let id = text("vendor").zip(text("device")).map(|(vendor, device)| format!("{vendor}:{device}"));
    object([
        ("kind", Some(kind.into())),
        ("name", names.get(address).map(|name| name.as_str().into())),
        // Numbers of vendor and device, as in every list of PCI devices.
        ("id", id.map(Value::from)),
        ("driver", root.link_name(&format!("{base}/driver")).map(Value::from)),
        ("address", Some(address.into())),
    ])
}

/// What a class of PCI devices is (PCI Code and ID Assignment Specification); `None` of what has to do with neither disks nor
/// networks.
fn kind(class: u32) -> Option<&'static str> {
    Some(match class {
        0x0100 => "SCSI controller",
        0x0101 => "IDE controller",
        0x0104 => "RAID controller",
        0x0106 => "SATA controller",
        0x0107 => "SAS controller",
        0x0108 => "NVMe controller",
        0x0200 => "Ethernet controller",
        0x0207 => "InfiniBand controller",
        _ if class >> 8 == 0x01 => "disk controller",
        _ if class >> 8 == 0x02 => "network controller",
        _ => return None,
    })
}

/// What `lspci` calls each device, by address, where it is installed.
fn pci_names(ask: Ask<'_>) -> BTreeMap<String, String> {
    let listed = ask("lspci", &["-D", "-mm"]).unwrap_or_default();
    listed.lines().filter_map(pci_name).collect()
}

/// `0000:00:1f.2 "SATA controller" "Intel Corporation" "82801IR" -r02 …`: address, vendor with device.
fn pci_name(line: &str) -> Option<(String, String)> {
    let (address, rest) = line.split_once(' ')?;
    let mut quoted = rest.split('"').skip(1).step_by(2);
    let (_class, vendor, device) = (quoted.next()?, quoted.next()?, quoted.next()?);
    Some((address.to_owned(), format!("{vendor} {device}")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;
    use crate::machine::tests::root_with;

    #[test]
    fn disks_and_their_controllers_have_models_and_no_numbers_of_their_own() {
        const SATA: &str = "/sys/devices/pci0000:00/0000:00:1f.2";
        let disk = format!("{SATA}/ata1/host0/block/sda");
        let (keep, root) = root_with(&[
            (&format!("{disk}/size"), "2000\n"),
            (&format!("{disk}/queue/rotational"), "1\n"),
            (&format!("{disk}/queue/scheduler"), "none [mq-deadline]\n"),
            (&format!("{disk}/device/model"), "ST32550WC       \n"),
            (&format!("{disk}/device/vendor"), "SEAGATE \n"),
            (&format!("{disk}/device/serial"), "S3RIAL\n"),
            (&format!("{disk}/device/wwid"), "naa.5000c500S3RIAL\n"),
            (&format!("{SATA}/class"), "0x010601\n"),
            (&format!("{SATA}/vendor"), "0x8086\n"),
            (&format!("{SATA}/device"), "0x2922\n"),
            ("/sys/devices/pci0000:00/0000:00:03.0/class", "0x020000\n"),
            ("/sys/devices/pci0000:00/0000:00:03.0/vendor", "0x1af4\n"),
            ("/sys/devices/pci0000:00/0000:00:03.0/device", "0x1041\n"),
            ("/sys/devices/pci0000:00/0000:00:04.0/class", "0x030000\n"),
            ("/sys/block/loop0/size", "80\n"),
            ("/sys/block/sr0/size", "0\n"),
            ("/sys/block/sr0/device/model", "CDROM\n"),
            ("/sys/class/scsi_host/host0/proc_name", "ahci\n"),
        ]);
        let link = |to: &str, at: &str| {
            let at = keep.path().join(at);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            symlink(to, at).unwrap();
        };
        link("../devices/pci0000:00/0000:00:1f.2/ata1/host0/block/sda", "sys/block/sda");
        for address in ["0000:00:1f.2", "0000:00:03.0", "0000:00:04.0"] {
            link(
                &format!("../../../devices/pci0000:00/{address}"),
                &format!("sys/bus/pci/devices/{address}"),
            );
        }
        link("../../../bus/pci/drivers/ahci", "sys/devices/pci0000:00/0000:00:1f.2/driver");
        let mut facts = Facts::below(&root);
        gather(&mut facts, &|program, _| {
            let listed =
                "0000:00:1f.2 \"SATA controller\" \"Intel Corporation\" \"82801IR\" -r02 \"x\" \"y\"\n";
            (program == "lspci").then(|| listed.to_owned())
        });
        let facts = facts.finish();
        assert_eq!(
            facts["disks"],
            json!([{
                "name": "sda", "bytes": 1_024_000, "model": "ST32550WC", "vendor": "SEAGATE",
                "rotational": true, "scheduler": "mq-deadline", "controller": "0000:00:1f.2",
            }])
        );
        assert_eq!(
            facts["controllers"],
            json!([
                { "kind": "Ethernet controller", "id": "0x1af4:0x1041", "address": "0000:00:03.0" },
                {
                    "kind": "SATA controller", "name": "Intel Corporation 82801IR", "id": "0x8086:0x2922",
                    "driver": "ahci", "address": "0000:00:1f.2",
                },
            ])
        );
        assert_eq!(facts["scsi_hosts"], json!(["ahci"]));
        let all = serde_json::to_string(&facts).unwrap();
        assert!(!all.contains("S3RIAL"), "{all}");
    }

    #[test]
    fn a_way_through_bridges_ends_at_the_controller() {
        let of = |path: &str| pci_address(Path::new(path));
        let bridged = "../devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1";
        assert_eq!(of(bridged).as_deref(), Some("0000:03:00.0"));
        assert_eq!(of("../devices/virtual/block/loop0"), None);
    }
}
