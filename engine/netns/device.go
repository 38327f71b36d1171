package netns

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"headroom/fail"
)

// SetDevice writes an attribute of a device of n, as below /sys/class/net:
// "threaded", "queues/rx-0/rps_cpus". /sys itself shows the namespace that
// mounted it; this goes past it, to the namespace's own.
func (n *Namespace) SetDevice(device, attribute, value string) error {
	if _, err := n.Device(device); err != nil {
		return err
	}
	if strings.Contains(attribute, "..") || strings.HasPrefix(attribute, "/") {
		return fmt.Errorf("set %s of %s: that is no attribute", attribute, device)
	}
	err := n.Do(func() error {
		sys, err := sysfs()
		if err != nil {
			return err
		}
		defer unix.Close(sys)
		fd, err := unix.Openat(sys, "class/net/"+device+"/"+attribute, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%w: %w", fail.ErrAbsent, err)
		}
		if err != nil {
			return err
		}
		_, err = unix.Write(fd, []byte(value))
		return errors.Join(err, unix.Close(fd))
	})
	if err != nil {
		return fmt.Errorf("set %s of %s to %q: %w", attribute, device, value, err)
	}
	return nil
}

// sysfs opens the calling thread's namespace's view of sysfs, mounted nowhere.
func sysfs() (int, error) {
	ctx, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open sysfs: %w", denied(err))
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, fmt.Errorf("make sysfs: %w", denied(err))
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("make sysfs: %w", denied(err))
	}
	return fd, nil
}

// ethtoolValue is struct ethtool_value.
type ethtoolValue struct{ cmd, data uint32 }

// ifreq is struct ifreq with a pointer.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data *ethtoolValue
	_    [16]byte
}

// poll switches GRO on, with which a veth device is polled (drivers/net/veth.c,
// veth_requested_gro).
func poll(l netlink.Link) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	v := ethtoolValue{unix.ETHTOOL_SGRO, 1}
	req := ifreq{data: &v}
	copy(req.name[:unix.IFNAMSIZ-1], l.Attrs().Name)
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req))); e != 0 {
		return fmt.Errorf("have %s polled: %w", l.Attrs().Name, e)
	}
	return nil
}
