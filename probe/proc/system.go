package proc

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
)

// System is what runs here and in what.
type System struct {
	Kernel    fact.Opt[string]  `json:"kernel" src:"/proc/sys/kernel/osrelease" doc:"kernel release"`
	OS        fact.Opt[string]  `json:"os" src:"/etc/os-release PRETTY_NAME" doc:"distribution and its version"`
	Virtual   fact.Opt[string]  `json:"virtual" src:"/sys/class/dmi/id, /sys/hypervisor/type, /proc/cpuinfo hypervisor" doc:"the hypervisor as far as visible: its name, \"some\" or \"none\""`
	Container fact.Opt[string]  `json:"container" src:"/run/systemd/container, /.dockerenv, /run/.containerenv, /proc/1/cgroup" doc:"hint that we run in a container: its kind, or \"none\""`
	Uptime    fact.Opt[float64] `json:"uptime" unit:"seconds" src:"/proc/uptime" doc:"time since boot"`
}

// Systems is the fact "proc.system".
var Systems = &fact.Source[System]{
	Name: "proc.system", Doc: "kernel, distribution, virtualisation and uptime",
	Read: func(_ context.Context, in *fact.In) (System, error) { return ReadSystem(in), nil },
}

// ReadSystem reads what runs here; each part tells for itself if it could not
// be read.
func ReadSystem(r host.Reader) System {
	return System{
		Kernel: text(r, "/proc/sys/kernel/osrelease"), OS: release(r), Virtual: virtual(r),
		Container: container(r), Uptime: uptime(r),
	}
}

func release(r host.Reader) fact.Opt[string] {
	b, err := r.ReadFile("/etc/os-release")
	if err != nil {
		return fact.Unknown[string](because(err))
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return fact.Known(strings.Trim(strings.TrimSpace(v), `"'`))
		}
	}
	return fact.Unknown[string]("/etc/os-release has no line PRETTY_NAME")
}

// makers maps what firmware calls itself to the hypervisor behind it.
var makers = []struct{ mark, name string }{
	{"QEMU", "QEMU/KVM"}, {"KVM", "QEMU/KVM"}, {"Amazon EC2", "Amazon EC2"}, {"Google", "Google Compute Engine"}, {"VMware", "VMware"},
	{"VirtualBox", "VirtualBox"}, {"innotek", "VirtualBox"}, {"Xen", "Xen"}, {"Microsoft", "Hyper-V"}, {"OpenStack", "OpenStack"},
	{"Parallels", "Parallels"}, {"Bochs", "Bochs"}, {"DigitalOcean", "DigitalOcean"}, {"Hetzner", "Hetzner"},
}

func virtual(r host.Reader) fact.Opt[string] {
	firmware := ""
	for _, f := range []string{"sys_vendor", "product_name", "bios_vendor"} {
		if s, err := word(r, "/sys/class/dmi/id/"+f); err == nil {
			firmware += " " + s
		}
	}
	for _, m := range makers {
		if strings.Contains(firmware, m.mark) {
			return fact.Known(m.name)
		}
	}
	if s, err := word(r, "/sys/hypervisor/type"); err == nil && s != "" {
		return fact.Known(s)
	}
	b, err := r.ReadFile("/proc/cpuinfo")
	if err != nil {
		return fact.Unknown[string](because(err))
	}
	kind := "none"
	pairs(b, func(k, v string) {
		if k == "flags" && strings.Contains(" "+v+" ", " hypervisor ") {
			kind = "some"
		}
	})
	if kind == "none" && firmware == "" {
		return fact.Unknown[string]("no firmware tables and no hypervisor flag to tell by")
	}
	return fact.Known(kind)
}

func container(r host.Reader) fact.Opt[string] {
	if s, err := word(r, "/run/systemd/container"); err == nil && s != "" {
		return fact.Known(s)
	}
	for _, f := range []struct{ path, kind string }{{"/.dockerenv", "docker"}, {"/run/.containerenv", "podman"}} {
		if _, err := r.Stat(f.path); err == nil {
			return fact.Known(f.kind)
		} else if !errors.Is(err, fail.ErrAbsent) {
			return fact.Unknown[string](err.Error())
		}
	}
	b, err := r.ReadFile("/proc/1/cgroup")
	if err != nil {
		return fact.Unknown[string](because(err))
	}
	for _, mark := range []string{"docker", "kubepods", "lxc", "containerd"} {
		if strings.Contains(string(b), mark) {
			return fact.Known(mark)
		}
	}
	return fact.Known("none")
}

func uptime(r host.Reader) fact.Opt[float64] {
	s, err := word(r, "/proc/uptime")
	if err != nil {
		return fact.Unknown[float64](because(err))
	}
	first, _, _ := strings.Cut(s, " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil || !(v >= 0 && v < 1e12) {
		return fact.Unknown[float64]("/proc/uptime holds no figure")
	}
	return fact.Known(v)
}
