package watch

import (
	"os"
	"testing"
)

// What collectors keep is there after a restart, for each server apart.
func TestCollectorsKeepWhatTheyKnow(t *testing.T) {
	p := upPlace(testDirs(t))
	if err := p.make(); err != nil {
		t.Fatal(err)
	}
	a, b := p.keeper("nginx.log", "nginx"), p.keeper("nginx.log", "/srv/../etc/passwd")
	if got, err := a.Load(); got != nil || err != nil {
		t.Errorf("before anything was kept: %q, %v", got, err)
	}
	for text, k := range map[string]interface{ Save([]byte) error }{"a": a, "b": b} {
		if err := k.Save([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := p.keeper("nginx.log", "nginx").Load(); string(got) != "a" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	files, err := os.ReadDir(p.path("memory"))
	if err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
}
