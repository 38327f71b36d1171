package report

import (
	"fmt"
	"strings"

	"headroom/engine/packet"
	"headroom/unit"
)

type floodJSON struct {
	head
	packet.Outcome
	PerSecond        float64 `json:"sent_per_second"`
	ArrivedPerSecond float64 `json:"arrived_per_second"`
	NSPerPacket      float64 `json:"cpu_ns_per_packet"` // of all CPUs' work meanwhile, per packet that arrived; 0: none did
}

// Flood shows what was sent, what arrived, and what the CPUs did for it.
func Flood(o packet.Outcome) Section {
	ns := 0.0
	if o.Arrived > 0 {
		ns = o.CPUSeconds() * 1e9 / float64(o.Arrived)
	}
	sec := Section{title: "Flood", data: floodJSON{head{Format: "headroom-flood", Schema: schema}, o, o.PerSecond(), o.ArrivedPerSecond(), ns},
		sheet: sheet{columns: []string{"method", "seconds", "sent", "refused", "arrived", "sent_per_second", "arrived_per_second", "cpu_ns_per_packet"},
			rows: [][]string{{string(o.Method), bare(o.Took.Seconds()), fmt.Sprint(o.Packets), fmt.Sprint(o.Refused), fmt.Sprint(o.Arrived),
				bare(o.PerSecond()), bare(o.ArrivedPerSecond()), bare(ns)}}}}
	it := item{Title: o.Where, Fields: []field{
		{Label: "sent", Text: fmt.Sprintf("%s packets in %s by %s: %s", unit.Format(float64(o.Packets), unit.Count), unit.Seconds(o.Took.Seconds()), o.Method, packets(o.PerSecond()))},
		{Label: "arrived", Text: fmt.Sprintf("%s: %s, counted at %s", unit.Format(float64(o.Arrived), unit.Count), packets(o.ArrivedPerSecond()), o.At)},
	}}
	if o.Refused > 0 {
		it.Fields = append(it.Fields, field{Label: "refused", Text: unit.Format(float64(o.Refused), unit.Count) + " that the sending kernel did not take: no room, or a rule for output"})
	}
	if ns > 0 {
		it.Fields = append(it.Fields, field{Label: "cost", Text: fmt.Sprintf("%s ns of CPU time per packet that arrived, sending, receiving and all other programs together", unit.Format(ns, unit.Count))})
	}
	sec.blocks = append(sec.blocks, it, coreGrid(o.Cores))
	if lost := o.Packets - o.Arrived; lost > o.Packets/100 {
		sec.blocks = append(sec.blocks, para{Tone: note, Text: fmt.Sprintf("Note: %s of what was sent did not arrive: the far end was slower than the sender, and its queue was full.", unit.Format(float64(lost)/float64(o.Packets), unit.Ratio))})
	}
	sec.blocks = append(sec.blocks, para{Tone: strong, Answer: true, Text: fmt.Sprintf("Flood: %s sent, %s arrived.", packets(o.PerSecond()), packets(o.ArrivedPerSecond()))})
	return sec
}

// packets writes a rate: "1.1 M packets/s".
func packets(rate float64) string {
	n, _ := strings.CutSuffix(unit.Format(rate, unit.PerSecond), "/s")
	return n + " packets/s"
}

func coreGrid(c packet.Cores) grid {
	g := grid{Title: "CPUs meanwhile", Columns: []column{{Name: "CPU"}, {Name: "busy", Figures: true}, {Name: "in softirq", Figures: true}, {Name: "NET_RX", Figures: true}}}
	for _, n := range c.Numbers() {
		g.Rows = append(g.Rows, []string{fmt.Sprint(n), unit.Format(c[n].Busy(), unit.Ratio), unit.Format(c[n].Soft(), unit.Ratio), unit.Format(float64(c[n].NetRX), unit.Count)})
	}
	return g
}
