package agent

import (
	"fmt"
	"slices"

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
		out = append(out, Target{Kind: metric.Nginx, Name: nginx.Name(conf), Found: fmt.Sprintf("process %d, %s", p.pid, conf)})
	}
	return out
}
