package pglocal

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/xi2/xz"

	"headroom/unit"
)

const (
	mavenCentral = "https://repo1.maven.org/maven2"
	mirrorVar    = "HEADROOM_MAVEN" // names another repository of the same layout
	jarMax       = 64 << 20         // bytes; the builds have 10 to 20 MB
	fileMax      = 256 << 20        // bytes of one unpacked file
	installSpace = 256 << 20        // bytes: unpacked 50 to 100 MB
	fetchLimit   = 5 * time.Minute
)

// fetch downloads a build's jar and compares it with the pinned checksum.
func fetch(ctx context.Context, o Options, b build, arch string) ([]byte, error) {
	repo := mavenCentral
	if m := os.Getenv(mirrorVar); m != "" {
		repo = strings.TrimRight(m, "/")
	}
	name := "embedded-postgres-binaries-linux-" + arch
	url := fmt.Sprintf("%s/io/zonky/test/postgres/%s/%s/%s-%s.jar", repo, name, b.version, name, b.version)
	o.say("fetching PostgreSQL %s from %s", b.version, url)
	ctx, stop := context.WithTimeout(ctx, fetchLimit)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", url, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch the programs: %w", err) // names the address itself
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch %s: the server answered %s", url, resp.Status)
	}
	jar, err := io.ReadAll(io.LimitReader(resp.Body, jarMax+1))
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", url, err)
	}
	if len(jar) > jarMax {
		return nil, fmt.Errorf("fetch %s: larger than %s", url, unit.Bytes(jarMax))
	}
	if sum := sha256.Sum256(jar); hex.EncodeToString(sum[:]) != b.sha256 {
		return nil, fmt.Errorf("check %s: its SHA-256 is %x, not %s as pinned", url, sum, b.sha256)
	}
	return jar, nil
}

// unpack writes the archive inside the jar to dir.
func unpack(ctx context.Context, jar []byte, dir string) error {
	z, err := zip.NewReader(bytes.NewReader(jar), int64(len(jar)))
	if err != nil {
		return fmt.Errorf("open the jar: %w", err)
	}
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, ".txz") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return fmt.Errorf("open %s in the jar: %w", f.Name, err)
		}
		defer r.Close()
		x, err := xz.NewReader(r, 0)
		if err != nil {
			return fmt.Errorf("open %s in the jar: %w", f.Name, err)
		}
		return untar(ctx, tar.NewReader(x), dir)
	}
	return errors.New("open the jar: no .txz in it")
}

// untar writes files, folders and links below dir; nothing can lead out of it.
func untar(ctx context.Context, t *tar.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer root.Close()
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = untarOne(root, h, t)
		}
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
	}
}

func untarOne(root *os.Root, h *tar.Header, content io.Reader) error {
	name := filepath.Clean(h.Name)
	folder := filepath.Dir(name)
	if h.Typeflag == tar.TypeDir {
		folder = name
	}
	// Whatever the umask: the server's account must read all of it.
	if err := errors.Join(root.MkdirAll(folder, 0o755), root.Chmod(folder, 0o755)); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return nil
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		if h.Size > fileMax {
			return fmt.Errorf("%s: %s is too large", name, unit.Bytes(h.Size))
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		if err == nil {
			err = f.Chmod(0o644 | h.FileInfo().Mode()&0o111)
		}
		if err == nil {
			err = f.Sync()
		}
		return errors.Join(err, f.Close())
	}
	return fmt.Errorf("%s: neither file, folder nor link", name)
}
