package agent

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"path"
	"strconv"
	"strings"

	"headroom/host"
)

// listener is a socket on which somebody waits for connections.
type listener struct {
	path string         // unix socket
	addr netip.AddrPort // TCP
	uid  int            // who opened it; TCP only
}

// unixListeners lists the unix sockets with a name that are listened on.
func unixListeners(r host.Reader) []listener {
	b, err := r.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	var out []listener
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line) // Num RefCount Protocol Flags Type St Inode Path
		if len(f) == 8 && f[3] == "00010000" && strings.HasPrefix(f[7], "/") {
			out = append(out, listener{path: f[7]})
		}
	}
	return out
}

// tcpListeners lists the TCP sockets that are listened on.
func tcpListeners(r host.Reader) []listener {
	var out []listener
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := r.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line) // sl local remote st queues timer retransmit uid …
			if len(f) < 8 || f[3] != "0A" {
				continue
			}
			addr, ok := parseAddr(f[1])
			uid, err := strconv.Atoi(f[7])
			if ok && err == nil {
				out = append(out, listener{addr: addr, uid: uid})
			}
		}
	}
	return out
}

// parseAddr reads the kernel's "0100007F:1538": words of the address in the
// machine's byte order (little-endian on all that we run on), port in hex.
func parseAddr(s string) (netip.AddrPort, bool) {
	a, p, _ := strings.Cut(s, ":")
	raw, err1 := hex.DecodeString(a)
	port, err2 := strconv.ParseUint(p, 16, 16)
	if err1 != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.LittleEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	ip, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(ip.Unmap(), uint16(port)), ok
}

// pgSocket cuts the name of a socket of PostgreSQL's form into folder and port.
func pgSocket(file string) (dir string, port int, ok bool) {
	p, found := strings.CutPrefix(path.Base(file), ".s.PGSQL.")
	port, err := strconv.Atoi(p)
	return path.Dir(file), port, found && err == nil
}
