package place

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"

	"headroom/fact"
	"headroom/probe/block"
	"headroom/unit"
)

const (
	enough    = 64 * unit.MB // of files, so that reads are spread
	smallFile = 1 * unit.MB
	maxStats  = 4096 // files looked at
	maxOpen   = 64   // files read from
)

// target is the folder to measure and the pattern of its table files: those
// of the server that was named, else those of Debian's default place.
func target(ctx context.Context, in *fact.In) (folder, tables string) {
	if f, why := serverFolders(ctx, in); why == "" {
		return f.Data, f.Data + "/base/[0-9]*/[0-9]*"
	}
	const debian = "/var/lib/postgresql"
	if st, err := in.Stat(debian); err == nil && st.Mode.IsDir() {
		return debian, debian + "/*/*/base/[0-9]*/[0-9]*"
	}
	return "/", ""
}

// choice is what to read and how much of it.
type choice struct {
	paths  []string
	budget int64
	what   string
}

// choose prefers the server's table files, then other large files on the same
// file system, then the raw device: a file's blocks are really there, while a
// thinly provisioned device answers at once for blocks never written.
func (j joiner) choose(m block.Mount, p Place, tables string, seed uint64) (choice, error) {
	if !m.Size.OK() {
		return choice{}, fmt.Errorf("the size of the file system at %s is not known: %s", m.Point, m.Size.Because)
	}
	var patterns []string
	if tables != "" {
		patterns = append(patterns, tables)
	}
	if files, size := j.large(patterns, m, seed); size >= enough {
		return choice{files, m.Size.Value / 100, fmt.Sprintf("table files: %d of the server's, %s", len(files), unit.Bytes(size))}, nil
	}
	if files, size := j.large(others(m.Point), m, seed); size >= enough {
		return choice{files, m.Size.Value / 100, fmt.Sprintf("files: %d large ones on the file system at %s, %s", len(files), m.Point, unit.Bytes(size))}, nil
	}
	if !p.Device.OK() {
		return choice{}, fmt.Errorf("less than %s of large files can be read on the file system at %s, and there is no raw device to read: %s", unit.Bytes(enough), m.Point, p.Device.Because)
	}
	d, err := block.Find(j.devices, p.Device.Value)
	if err != nil {
		return choice{}, err
	}
	return choice{[]string{d.Node()}, d.Size / 100, "the raw device " + d.Node() + "; if it is thinly provisioned, blocks never written answer faster than others"}, nil
}

// others are patterns of files that may be large, on the file system that is
// mounted at a folder. On the root they stay within the system's own.
func others(point string) []string {
	if point == "/" {
		return []string{"/usr/bin/*", "/usr/lib/*/*", "/usr/local/*/*", "/var/cache/*/*", "/boot/*"}
	}
	return []string{point + "/*", point + "/*/*"}
}

// large picks files of at least smallFile at random, of those on one file
// system. Finding none is no error.
func (j joiner) large(patterns []string, on block.Mount, seed uint64) (files []string, size int64) {
	var all []string
	for _, p := range patterns {
		found, err := j.r.Glob(p)
		if err != nil {
			continue // a folder whose name is no pattern: as if nothing matched
		}
		all = append(all, found...)
	}
	rand.New(rand.NewPCG(seed, 0xf11e)).Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	for _, f := range all[:min(len(all), maxStats)] {
		if len(files) == maxOpen {
			break
		}
		if m, err := block.Holding(j.mounts, f); err != nil || m.Point != on.Point || path.Ext(f) == ".init" {
			continue
		}
		st, err := j.r.Stat(f)
		if err != nil || !st.Mode.IsRegular() || st.Size < smallFile {
			continue
		}
		if real, err := j.r.Resolve(f); err != nil || real != f {
			continue // a link: its target is counted where it lies
		}
		files = append(files, f)
		size += st.Size
	}
	return files, size
}
