package report

import (
	"bytes"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"headroom/host"
	"headroom/testkit/need"
)

// TestPageInABrowser proves that the page's own policy lets its style through,
// in the light and in the dark.
func TestPageInABrowser(t *testing.T) {
	need.Have(t, "chromium")
	program, err := host.FindProgram("chromium")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var b bytes.Buffer
	if err := Render(&b, HTML, Terminal{}, "Headroom", Trial(walTrial(t))); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, "page.html")
	if err := os.WriteFile(page, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		setting string
		ground  color.RGBA
	}{
		"light": {"preferredColorScheme=1", color.RGBA{255, 255, 255, 255}},
		"dark":  {"preferredColorScheme=0", color.RGBA{0x14, 0x17, 0x1a, 255}},
	} {
		shot := filepath.Join(dir, name+".png")
		out, err := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
			"--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--user-data-dir="+filepath.Join(dir, name),
			"--blink-settings="+c.setting, "--window-size=800,600", "--screenshot="+shot, "file://"+page).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		f, err := os.Open(shot)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		img, err := png.Decode(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if got := color.RGBAModel.Convert(img.At(2, 2)); got != c.ground {
			t.Errorf("%s: the ground is %v, want %v", name, got, c.ground)
		}
	}
}
