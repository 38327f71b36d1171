package page

import "net/http"

func (p *pages) overview(w http.ResponseWriter, r *http.Request) {
	s := hostScope(p.Parts.Host)
	p.show(w, r, "overview", "Overview", true, []Chart{
		{Title: "CPU", Help: "share of all CPUs by what they do", Unit: "ratio", Stack: true, Max: one,
			Lines: []Line{{Match: s.sel("host_cpu_seconds_total", `mode!="idle"`), Over: s.sel("host_cpus"), Func: "rate", By: []string{"mode"}, Agg: "sum", Label: "{mode}"}}},
	})
}
