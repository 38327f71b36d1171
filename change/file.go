package change

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"headroom/fail"
	"headroom/host"
)

// File is a whole file: its content and mode, or its absence. It is replaced
// in one move, so that nobody ever sees half of it, and its folder must be
// there. Links and files that belong to somebody else are refused: replacing
// them would not be undone by writing the old content back.
type File struct {
	Path    string `json:"path"` // absolute
	Content string `json:"content,omitempty"`
	Binary  bool   `json:"binary,omitempty"` // Content is base64
	Mode    uint32 `json:"mode,omitempty"`   // permission bits; 0 means 0644
	Absent  bool   `json:"absent,omitempty"` // the file shall not be there
}

// Kind implements Step.
func (File) Kind() string { return "file" }

// Object implements Step.
func (f File) Object() string { return f.Path }

// Effects implements Step.
func (File) Effects() []string { return nil }

func (f File) String() string {
	if f.Absent {
		return "remove " + f.Path
	}
	return fmt.Sprintf("write %s (mode %04o)", f.Path, f.mode())
}

func (f File) mode() uint32 {
	if f.Mode == 0 {
		return 0o644
	}
	return f.Mode
}

// Read implements Step.
func (f File) Read(_ context.Context, r host.Reader) (State, error) {
	b, err := r.ReadFile(f.Path)
	if errors.Is(err, fail.ErrAbsent) {
		return State{}, nil
	}
	if err != nil {
		return State{}, err
	}
	st, err := r.Stat(f.Path)
	if err != nil {
		return State{}, err
	}
	s := State{Present: true, Mode: uint32(st.Mode.Perm())}
	s.Value, s.Binary = text(b)
	return s, nil
}

// Want implements Step.
func (f File) Want(_ context.Context, r host.Reader, before State) (State, error) {
	if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path {
		return State{}, fmt.Errorf("plan %s: not an absolute, clean path", f.Path)
	}
	if f.Absent {
		return State{}, f.replaceable(r, before)
	}
	want := State{Present: true, Value: f.Content, Binary: f.Binary, Mode: f.mode()}
	if _, err := f.content(); err != nil {
		return State{}, err
	}
	return want, f.replaceable(r, before)
}

// replaceable says why the file cannot be replaced and put back as it was.
func (f File) replaceable(r host.Reader, before State) error {
	dir := path.Dir(f.Path)
	if st, err := r.Stat(dir); err != nil || !st.Mode.IsDir() {
		if err == nil {
			err = errors.New("it is no folder")
		}
		return fmt.Errorf("plan %s: folder %s: %w", f.Path, dir, err)
	}
	if !before.Present {
		return nil
	}
	st, err := r.Stat(f.Path)
	if err != nil {
		return err
	}
	if !st.Mode.IsRegular() {
		return fmt.Errorf("plan %s: not a plain file", f.Path)
	}
	if st.UID != 0 && st.UID != os.Geteuid() || st.GID != 0 && st.GID != os.Getegid() {
		return fmt.Errorf("plan %s: it belongs to user %d, group %d, and replacing it would make it ours", f.Path, st.UID, st.GID)
	}
	real, err := r.Resolve(f.Path)
	if err != nil {
		return err
	}
	realDir, err := r.Resolve(dir)
	if err != nil {
		return err
	}
	if real != path.Join(realDir, path.Base(f.Path)) {
		return fmt.Errorf("plan %s: it is a link to %s", f.Path, real)
	}
	return nil
}

// Undo implements Step.
func (f File) Undo(before State) Step {
	return File{Path: f.Path, Content: before.Value, Binary: before.Binary, Mode: before.Mode, Absent: !before.Present}
}

func (f File) content() ([]byte, error) {
	if !f.Binary {
		return []byte(f.Content), nil
	}
	b, err := base64.StdEncoding.DecodeString(f.Content)
	if err != nil {
		return nil, fmt.Errorf("write %s: its content is not base64: %w", f.Path, err)
	}
	return b, nil
}

// Apply implements Step.
func (f File) Apply(_ context.Context, w host.Writer) error {
	if err := f.sweep(w); err != nil {
		return err
	}
	if f.Absent {
		return w.Remove(f.Path)
	}
	b, err := f.content()
	if err != nil {
		return err
	}
	return w.WriteFile(f.Path, b, fs.FileMode(f.mode()))
}

// sweep removes the temporary files that a write of this very file left
// behind when it was killed. Only one change runs at a time, so none is in use.
func (f File) sweep(w host.Writer) error {
	dir, base := path.Split(f.Path)
	quoted := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir + "." + base)
	left, err := w.Glob(quoted + ".????????.tmp")
	if err != nil {
		return err
	}
	for _, p := range left {
		if err := w.Remove(p); err != nil {
			return err
		}
	}
	return nil
}
