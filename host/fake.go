package host

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
)

// Fake is a machine made of a map, for tests of what is built on a Reader or
// Writer. It has no server: PG answers fail.ErrAbsent.
type Fake struct {
	Files  map[string]string    // path → content; /sys and /proc pseudo files too
	Links  map[string]string    // path → what Resolve returns
	Stats  map[string]FileInfo  // path → Stat; a path in Files has a default
	Spaces map[string]Space     // path → Space
	Timed  map[string]TimedFile // path → what OpenTimed returns
	Looked map[string]string    // "systemctl show x" → output of Look
	Pages  map[string]string    // address → what Get returns
	Shown  map[string]Table     // "show pools" → what Console returns
	Kept   *Clock               // what Clock returns
	Time   time.Time
	Ran    [][]string // what Run was asked to run
	// Fail, if set, is asked before each Writer call; an error it returns is
	// that call's result.
	Fail func(op, object string) error
}

var _ Writer = (*Fake)(nil)

func none(verb, p string) error { return fmt.Errorf("%s %s: %w", verb, p, fail.ErrAbsent) }

// ReadFile implements Reader.
func (f *Fake) ReadFile(p string) ([]byte, error) {
	if s, ok := f.Files[p]; ok {
		return []byte(s), nil
	}
	return nil, none("read", p)
}

// ReadFrom implements Reader.
func (f *Fake) ReadFrom(p string, off int64, n int) ([]byte, error) {
	s, ok := f.Files[p]
	if !ok {
		return nil, none("read", p)
	}
	off = min(max(off, 0), int64(len(s)))
	return []byte(s[off:min(int64(len(s)), off+int64(min(n, partLimit)))]), nil
}

// Glob implements Reader. It also matches the folders that Files implies.
func (f *Fake) Glob(pattern string) ([]string, error) {
	seen := map[string]bool{}
	for p := range f.Files {
		for ; p != "/" && p != "."; p = path.Dir(p) {
			ok, err := path.Match(pattern, p)
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", pattern, err)
			}
			if ok {
				seen[p] = true
			}
		}
	}
	out := make([]string, 0, len(seen))
	for p := range seen {
		out = append(out, p)
	}
	sort.Strings(out)
	return out, nil
}

// Resolve implements Reader.
func (f *Fake) Resolve(p string) (string, error) {
	if to, ok := f.Links[p]; ok {
		return to, nil
	}
	if _, err := f.Stat(p); err != nil {
		return "", none("resolve", p)
	}
	return p, nil
}

// Stat implements Reader.
func (f *Fake) Stat(p string) (FileInfo, error) {
	if st, ok := f.Stats[p]; ok {
		return st, nil
	}
	if s, ok := f.Files[p]; ok {
		return FileInfo{Size: int64(len(s)), Mode: 0o644}, nil
	}
	for q := range f.Files {
		if strings.HasPrefix(q, p+"/") {
			return FileInfo{Mode: fs.ModeDir | 0o755}, nil
		}
	}
	return FileInfo{}, none("look at", p)
}

// Space implements Reader.
func (f *Fake) Space(p string) (Space, error) {
	if s, ok := f.Spaces[p]; ok {
		return s, nil
	}
	return Space{}, none("measure space of", p)
}

// OpenTimed implements Reader.
func (f *Fake) OpenTimed(p string) (TimedFile, error) {
	if t, ok := f.Timed[p]; ok {
		return t, nil
	}
	return nil, none("open", p)
}

// Look implements Reader.
func (f *Fake) Look(_ context.Context, argv ...string) ([]byte, error) {
	if err := allowed(argv); err != nil {
		return nil, err
	}
	if out, ok := f.Looked[strings.Join(argv, " ")]; ok {
		return []byte(out), nil
	}
	return nil, none("run", argv[0])
}

// PG implements Reader.
func (f *Fake) PG(context.Context, func(context.Context, pgx.Tx) error) error {
	return none("connect to", "PostgreSQL")
}

// Console implements Reader.
func (f *Fake) Console(_ context.Context, command string) (Table, error) {
	if t, ok := f.Shown[command]; ok {
		return t, nil
	}
	return Table{}, none("connect to", "PgBouncer's console")
}

// Get implements Reader.
func (f *Fake) Get(_ context.Context, address string) ([]byte, error) {
	if _, err := ownAddress(address); err != nil {
		return nil, err
	}
	if s, ok := f.Pages[address]; ok {
		return []byte(s), nil
	}
	return nil, none("get", address)
}

// Clock implements Reader.
func (f *Fake) Clock() (Clock, error) {
	if f.Kept == nil {
		return Clock{}, none("ask", "the clock")
	}
	return *f.Kept, nil
}

// Now implements Reader.
func (f *Fake) Now() time.Time { return f.Time }

func (f *Fake) hook(op, object string) error {
	if f.Fail == nil {
		return nil
	}
	return f.Fail(op, object)
}

// WriteFile implements Writer.
func (f *Fake) WriteFile(p string, content []byte, _ fs.FileMode) error {
	if err := f.hook("write", p); err != nil {
		return err
	}
	f.Files[p] = string(content)
	return nil
}

// WriteValue implements Writer. Like the kernel it refuses a file that does
// not exist; a list of choices ("none [mq-deadline]") keeps its form.
func (f *Fake) WriteValue(p, value string) error {
	if err := f.hook("write", p); err != nil {
		return err
	}
	old, ok := f.Files[p]
	if !ok {
		return none("write", p)
	}
	if strings.Contains(old, "[") {
		words := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(old))
		for i, w := range words {
			if w == value {
				words[i] = "[" + w + "]"
			}
		}
		value = strings.Join(words, " ")
	}
	f.Files[p] = value + "\n"
	return nil
}

// Remove implements Writer.
func (f *Fake) Remove(p string) error {
	if err := f.hook("remove", p); err != nil {
		return err
	}
	delete(f.Files, p)
	return nil
}

// Run implements Writer: it only records argv.
func (f *Fake) Run(_ context.Context, argv ...string) ([]byte, error) {
	if err := f.hook("run", strings.Join(argv, " ")); err != nil {
		return nil, err
	}
	f.Ran = append(f.Ran, argv)
	return nil, nil
}

// Feed implements Writer: as Run; the input is not kept.
func (f *Fake) Feed(ctx context.Context, _ []byte, argv ...string) ([]byte, error) {
	return f.Run(ctx, argv...)
}

// PGExec implements Writer.
func (f *Fake) PGExec(context.Context, string) error { return none("connect to", "PostgreSQL") }

// PGRestart implements Writer.
func (f *Fake) PGRestart(context.Context) error { return none("connect to", "PostgreSQL") }
