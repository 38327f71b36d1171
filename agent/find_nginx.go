package agent

import (
	"fmt"
	"slices"
	"strings"

	"headroom/host"
	"headroom/metric"
	"headroom/probe/nginx"
)

// nginxes lists the nginx servers by their master processes. One with its
// configuration at the usual place is called nginx, others by that file.
func nginxes(r host.Reader, ps []process) []Target {
	var out []Target
	for _, p := range ps {
		if p.name != "nginx" || !slices.Contains(p.args, "master") {
			continue
		}
		conf := p.within(r, p.option("-c", ""))
		if conf == "" {
			if conf = nginx.Usual; p.option("-p", "") != "" {
				conf = p.within(r, p.option("-p", "")) + "/conf/nginx.conf"
			}
		}
		if contained(r, p.dir()) && !contained(r, "/proc/self") {
			out = append(out, hidden(metric.Nginx, "nginx", p.pid, "run an agent in its container").Target)
			continue
		}
		out = append(out, Target{Kind: metric.Nginx, Name: nginx.Name(conf), Found: fmt.Sprintf("process %d, %s", p.pid, conf)})
	}
	return out
}

// contained says whether a process runs in a container: its files are not ours
// then.
func contained(r host.Reader, dir string) bool {
	b, err := r.ReadFile(dir + "/cgroup")
	if err != nil {
		return false
	}
	return slices.ContainsFunc([]string{"docker", "libpod", "kubepods", "containerd", "lxc"}, func(mark string) bool {
		return strings.Contains(string(b), mark)
	})
}
