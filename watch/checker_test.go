package watch

import (
	"slices"
	"testing"

	"headroom/agent"
	"headroom/check"
	"headroom/metric"
	"headroom/peer"
)

// A check about the machine is put once, also where no server runs; one that
// needs a server is put to each.
func TestChecksForMachineAndServer(t *testing.T) {
	named := func(server bool) (out []string) {
		checks, _ := checksFor(server)
		for _, c := range checks {
			out = append(out, c.Name)
		}
		return out
	}
	machine, server := named(false), named(true)
	for _, name := range []string{"disk.rotational-flag", "memory.overcommit"} {
		if !slices.Contains(machine, name) || slices.Contains(server, name) {
			t.Errorf("%s: of the machine %v, of servers %v", name, slices.Contains(machine, name), slices.Contains(server, name))
		}
	}
	if !slices.Contains(machine, "disk.shared-device") || !slices.Contains(server, "disk.shared-device") {
		t.Error("disk.shared-device is not put to both")
	}
}

func TestOneFindingIsToldOnce(t *testing.T) {
	machine := check.Outcome{Findings: []check.Finding{{Check: "disk.space", Subject: "/"}},
		NotChecked: []check.Unchecked{{Check: "disk.shared-device", Because: "ask the server who it is: no server named: not there"}, {Check: "memory.thp", Because: "permission denied"}}}
	server := check.Outcome{Findings: []check.Finding{{Check: "disk.space", Subject: "/"}, {Check: "disk.space", Subject: "/data"}}}
	apart(&machine, &server)
	if len(server.Findings) != 1 || server.Findings[0].Subject != "/data" {
		t.Errorf("the server's: %v", server.Findings)
	}
	if len(machine.NotChecked) != 1 || machine.NotChecked[0].Check != "memory.thp" {
		t.Errorf("not checked of the machine: %v", machine.NotChecked)
	}
}

// What was found on a server goes when it is no target any more: nothing that
// was taken away is told of for ever. One that is only gone for now stays.
func TestFindingsOfRemovedServersGo(t *testing.T) {
	c := &checker{latest: map[string]peer.Inspection{"": {}, "5432": {Server: "5432"}, "5433": {Server: "5433"}}}
	c.forget([]agent.Target{{Kind: metric.Host}, {Kind: metric.Postgres, Name: "5432", Missing: "gone"}, {Kind: metric.PgBouncer, Name: "5433"}})
	if list := c.list(); len(list) != 2 || list[0].Server != "" || list[1].Server != "5432" {
		t.Errorf("%+v", list)
	}
}
