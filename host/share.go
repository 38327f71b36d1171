package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// ShareWithFolder lets the group of a service's account read an open file or
// folder that root made in that account's folder, or below it; it stays
// root's, so that the account cannot change what root acts upon. It does
// nothing where we are not root, or the folder is a person's.
func ShareWithFolder(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var dir, own unix.Stat_t
	if err := errors.Join(unix.Lstat(filepath.Dir(f.Name()), &dir), unix.Fstat(int(f.Fd()), &own)); err != nil {
		return fmt.Errorf("tell whose %s is: %w", f.Name(), err)
	}
	below := dir.Uid == 0 && dir.Mode&0o057 == 0o050 // one that was shared before
	isDir := own.Mode&unix.S_IFMT == unix.S_IFDIR
	if own.Uid != 0 || dir.Gid == 0 || !below && !service(dir.Uid) || !isDir && own.Nlink != 1 {
		return nil
	}
	read := fs.FileMode(0o040)
	if isDir {
		read = 0o050
	}
	if err := errors.Join(f.Chown(-1, int(dir.Gid)), f.Chmod(fs.FileMode(own.Mode&0o777)|read)); err != nil {
		return fmt.Errorf("let the account of %s read %s: %w", filepath.Dir(f.Name()), f.Name(), err)
	}
	return nil
}

// service says whether a user number is of the system's range (login.defs(5),
// and systemd's DynamicUser), not a person's.
func service(uid uint32) bool { return uid > 0 && uid < 1000 || uid >= 61184 && uid <= 65534 }

// MakeShared makes a folder, and lets the account read it that owns the folder
// above; see ShareWithFolder. One that is there is shared, too.
func MakeShared(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make folder %s: %w", dir, err)
	}
	return share(dir, syscall.O_DIRECTORY)
}

// Share is ShareWithFolder for a file by its name; links are not followed.
func Share(path string) error { return share(path, syscall.O_NONBLOCK) }

func share(path string, flag int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|flag, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
		return nil // a link: where it leads is not that account's
	}
	if err != nil {
		return fmt.Errorf("let others read %s: %w", path, absent(err))
	}
	defer f.Close()
	return ShareWithFolder(f)
}

// WriteDurableShared is WriteDurable for a file that a service may read, too;
// see ShareWithFolder.
func WriteDurableShared(path string, content []byte, mode fs.FileMode) error {
	return writeDurable(path, content, mode, ShareWithFolder)
}
