package host

import "testing"

func TestOwnDirsInASystemdUnit(t *testing.T) {
	t.Setenv("HEADROOM_STATE", "")
	t.Setenv("STATE_DIRECTORY", "/var/lib/headroom:/var/lib/other")
	t.Setenv("CACHE_DIRECTORY", "/var/cache/hr")
	t.Setenv("RUNTIME_DIRECTORY", "not/absolute")
	t.Setenv("CONFIGURATION_DIRECTORY", "")
	got, err := OwnDirs()
	want := Dirs{Config: "/etc/headroom", State: "/var/lib/headroom", Run: "/run/headroom", Cache: "/var/cache/hr"}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}
