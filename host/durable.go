package host

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// WriteDurable replaces the file at path by content. After a return of nil
// the new content survives a power loss; after an error, or a crash at any
// moment, the file holds either the old or the new content, whole. A failed
// fsync is returned and never retried on the same file.
func WriteDurable(path string, content []byte, mode fs.FileMode) error {
	return writeDurable(path, content, mode, func(*os.File) error { return nil })
}

// WriteDurableFor is WriteDurable for a file that the folder's owner is to
// read and replace, too, where root writes it in an account's place.
func WriteDurableFor(path string, content []byte, mode fs.FileMode) error {
	return writeDurable(path, content, mode, GiveToFolder)
}

// GiveToFolder gives an open file or folder to the owner of the folder that it
// lies in, if we are root and it is root's; else it does nothing. The file has
// to be opened with O_NOFOLLOW where others may write to the folder.
func GiveToFolder(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var dir, own unix.Stat_t
	if err := errors.Join(unix.Lstat(filepath.Dir(f.Name()), &dir), unix.Fstat(int(f.Fd()), &own)); err != nil {
		return fmt.Errorf("tell whose %s is: %w", f.Name(), err)
	}
	// A second name may be a file of root's elsewhere.
	if own.Uid != 0 || dir.Uid == 0 || own.Mode&unix.S_IFMT == unix.S_IFREG && own.Nlink != 1 {
		return nil
	}
	if err := f.Chown(int(dir.Uid), int(dir.Gid)); err != nil {
		return fmt.Errorf("give %s to its folder's owner: %w", f.Name(), err)
	}
	return nil
}

func writeDurable(path string, content []byte, mode fs.FileMode, before func(*os.File) error) error {
	dir, base := filepath.Dir(path), filepath.Base(path)
	tmp := filepath.Join(dir, "."+base+"."+rand.Text()[:8]+".tmp")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, absent(err))
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = before(f)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("write %s: %w", path, absent(err))
	}
	return SyncDir(dir)
}

// SyncDir makes the names in a folder survive a power loss.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, absent(err))
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}
