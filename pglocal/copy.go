package pglocal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"headroom/fail"
	"headroom/host"
)

// copyTree copies the data folder src into the existing folder dst, all files
// owned by acct. Blocks are shared where the file system can (FICLONE);
// holes stay holes. Only files and folders are copied: a link, such as a
// tablespace, is an error. What vanishes meanwhile is left out. leaveOut are
// paths below src; of a folder, only the content is left out.
func copyTree(ctx context.Context, src, dst string, acct *host.Account, leaveOut ...string) error {
	from, err := os.OpenRoot(src)
	if err != nil {
		return fmt.Errorf("copy the data folder: %w", err)
	}
	defer from.Close()
	to, err := os.OpenRoot(dst)
	if err != nil {
		return fmt.Errorf("copy the data folder: %w", err)
	}
	defer to.Close()
	c := &copier{from: from, to: to, acct: acct, skip: map[string]bool{}, files: make(chan string, 64)}
	for _, p := range leaveOut {
		c.skip[p] = true
	}
	if err := c.run(ctx); err != nil {
		err = fmt.Errorf("copy the data folder %s: %w", src, err)
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			err = fail.Hint(err, "free some space in %s", filepath.Dir(dst))
		}
		return err
	}
	return nil
}

type copier struct {
	from, to *os.Root
	acct     *host.Account
	skip     map[string]bool
	files    chan string
}

// run walks the folders and has a few workers copy the files: most of the
// time goes into waiting for the disk to answer for small files.
func (c *copier) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for path := range c.files {
				if ctx.Err() != nil {
					continue
				}
				if err := c.file(path); err != nil {
					stop(err)
				}
			}
		})
	}
	err := fs.WalkDir(c.from.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = c.entry(path, d)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	close(c.files)
	wg.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

func (c *copier) entry(path string, d fs.DirEntry) error {
	switch {
	case path == ".":
		return nil
	case c.skip[path] && !d.IsDir(), c.skip[filepath.Dir(path)]:
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	case d.IsDir():
		if err := c.to.Mkdir(path, 0o700); err != nil {
			return err
		}
		return c.to.Lchown(path, c.acct.UID, c.acct.GID)
	case d.Type().IsRegular():
		c.files <- path
		return nil
	case d.Type()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a link: a server with tablespaces or WAL elsewhere cannot be copied", path)
	}
	return nil // a socket or pipe has no content
}

func (c *copier) file(path string) (err error) {
	in, err := c.from.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.to.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if c.acct.UID != os.Getuid() {
		if err := out.Chown(c.acct.UID, c.acct.GID); err != nil {
			return err
		}
	}
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil {
		return nil
	}
	return copySparse(out, in)
}

// copySparse copies the parts of in that hold data.
func copySparse(out, in *os.File) error {
	fi, err := in.Stat()
	if err != nil {
		return err
	}
	if fi.Size() == 0 {
		return nil
	}
	for off := int64(0); ; {
		data, err := unix.Seek(int(in.Fd()), off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return out.Truncate(fi.Size()) // a hole up to the end
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(in.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := in.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, end-data); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		off = end
	}
}

// treeSize is what the files below dir take on disk, in bytes.
func treeSize(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if st, err := statT(path); err == nil {
			sum += st.Blocks * 512
		}
		return nil
	})
	return sum, err
}
