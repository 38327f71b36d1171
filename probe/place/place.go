// Package place joins what two probes know: which file system and device hold
// the operating system, the server's data, its write-ahead log and its
// tablespaces, and how fast the data folder's device answers.
package place

import (
	"context"
	"fmt"

	"headroom/fact"
	"headroom/host"
	"headroom/probe/block"
	"headroom/probe/pg"
)

// Place is one folder that matters and what holds it.
type Place struct {
	Role   string           `json:"role" src:"headroom" doc:"os, data, wal, log, or the word tablespace and its name"`
	Path   string           `json:"path" src:"pg.folders" doc:"the folder, symbolic links followed"`
	Mount  fact.Opt[string] `json:"mount" src:"/proc/self/mountinfo" doc:"where the file system that holds it is mounted"`
	Device fact.Opt[string] `json:"device" src:"/sys/block" doc:"the block device that the file system is on"`
	Disks  []string         `json:"disks,omitempty" src:"/sys/block/*/slaves" doc:"the whole disks below that device; none if the device is unknown"`
}

// Layout is all places. Without a server that runs here there is only the
// operating system's, and NoServer says why.
type Layout struct {
	Places   []Place `json:"places" doc:"the folders that matter"`
	NoServer string  `json:"no_server,omitempty" src:"pg.folders" doc:"why the server's folders are not among them"`
}

// Find returns the place with a role.
func (l Layout) Find(role string) (Place, bool) {
	for _, p := range l.Places {
		if p.Role == role {
			return p, true
		}
	}
	return Place{}, false
}

// Layouts is the fact "place.layout".
var Layouts = &fact.Source[Layout]{
	Name: "place.layout", Doc: "which device and file system hold the operating system, the data, the write-ahead log and the tablespaces",
	Read: readLayout,
}

func readLayout(ctx context.Context, in *fact.In) (Layout, error) {
	mounts, err := fact.From(ctx, in, block.Mounts)
	if err != nil {
		return Layout{}, err
	}
	devices, devErr := fact.From(ctx, in, block.Devices)
	j := joiner{in, mounts, devices, devErr}
	l := Layout{Places: []Place{j.place("os", "/")}}
	f, why := serverFolders(ctx, in)
	if why != "" {
		l.NoServer = why
		return l, nil
	}
	l.Places = append(l.Places, j.place("data", f.Data))
	wal := Place{Role: "wal", Path: f.Data + "/pg_wal", Mount: fact.Unknown[string](f.WAL.Because), Device: fact.Unknown[string](f.WAL.Because)}
	if f.WAL.OK() {
		wal = j.place("wal", f.WAL.Value)
	}
	l.Places = append(l.Places, wal)
	if f.Log.OK() {
		l.Places = append(l.Places, j.place("log", f.Log.Value))
	}
	for _, t := range f.Tablespaces {
		l.Places = append(l.Places, j.place("tablespace "+t.Name, t.Path))
	}
	return l, nil
}

// serverFolders returns the folders of a server that runs on this machine, or
// why there are none.
func serverFolders(ctx context.Context, in *fact.In) (f pg.Folder, why string) {
	f, err := fact.From(ctx, in, pg.Folders)
	switch {
	case err != nil:
		return f, err.Error()
	case !f.Same.OK():
		return f, "whether the server runs on this machine could not be told: " + f.Same.Because
	case !f.Same.Value:
		return f, "the server runs on another machine"
	}
	return f, ""
}

type joiner struct {
	r       host.Reader
	mounts  []block.Mount
	devices []block.Device
	devErr  error
}

func (j joiner) place(role, path string) Place {
	p := Place{Role: role, Path: path}
	if real, err := j.r.Resolve(path); err == nil {
		p.Path = real
	}
	m, err := block.Holding(j.mounts, p.Path)
	if err != nil {
		p.Mount, p.Device = fact.Unknown[string](err.Error()), fact.Unknown[string](err.Error())
		return p
	}
	p.Mount = fact.Known(m.Point)
	d, err := j.device(m)
	if err == nil {
		p.Device = fact.Known(d.Name)
		p.Disks, err = block.Disks(j.devices, d.Name)
	}
	if err != nil {
		p.Device = fact.Unknown[string](err.Error())
	}
	return p
}

func (j joiner) device(m block.Mount) (block.Device, error) {
	if j.devErr != nil {
		return block.Device{}, fmt.Errorf("find the device of %s: %w", m.Point, j.devErr)
	}
	return block.DeviceOf(j.devices, m)
}
