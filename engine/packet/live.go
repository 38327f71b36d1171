package packet

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"headroom/engine/netns"
)

// live has the kernel send frames that a program of ours fills in
// (Documentation/bpf/bpf_prog_run.rst, live frames).
type live struct {
	prog    *ebpf.Program
	mix, at *ebpf.Map
	frame   []byte
	device  netns.Device
}

const (
	// liveRun is how many packets one call sends. A call takes some 30 ms to
	// clear up behind it, so that few and long ones are best.
	liveRun   = 1 << 20
	liveBatch = 128 // half of what the wire's queue holds
	// liveFrame is the longest frame: a page less the kernel's own part of it.
	liveFrame = 3400
)

func openLive(d netns.Device, raw [][]byte, at int) (sender, error) {
	l := &live{device: d, frame: Frame(d.Far, d.MAC, raw[0])}
	if err := l.open(raw, at); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *live) open(raw [][]byte, at int) (err error) {
	if err := l.store(raw, at); err != nil {
		return err
	}
	code := l.fill(varies(raw), len(raw))
	l.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "headroom_flood", Type: ebpf.XDP, Instructions: code, License: "GPL"})
	if err != nil {
		return fmt.Errorf("load the program that fills in packets: %w", err)
	}
	return nil
}

// varies is how many bytes from the start of a packet on, in words, differ
// between packets of the mix.
func varies(raw [][]byte) int {
	n := 0
	for _, ip := range raw[1:] {
		for i := n; i < len(ip); i++ {
			if ip[i] != raw[0][i] {
				n = i + 1
			}
		}
	}
	return min((n+7)/8*8, len(raw[0]))
}

// next is the program's memory: the packet to send next, and how many it sent.
type next struct{ At, Sent uint64 }

// store puts the packets where the program reads them, and its memory.
func (l *live) store(raw [][]byte, at int) (err error) {
	if l.at, err = ebpf.NewMap(&ebpf.MapSpec{Name: "headroom_at", Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1}); err == nil {
		err = l.at.Put(uint32(0), next{At: uint64(at)})
	}
	if err != nil {
		return fmt.Errorf("make the map of the next packet: %w", err)
	}
	size := (varies(raw) + 7) / 8 * 8
	if size == 0 {
		return nil // all are alike
	}
	if l.mix, err = ebpf.NewMap(&ebpf.MapSpec{Name: "headroom_mix", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(size), MaxEntries: uint32(len(raw))}); err != nil {
		return fmt.Errorf("make the map of packets: %w", err)
	}
	keys, values := make([]uint32, len(raw)), make([]byte, len(raw)*size)
	for i, ip := range raw {
		keys[i] = uint32(i)
		copy(values[i*size:(i+1)*size], ip)
	}
	for i := range keys {
		if err := l.mix.Put(keys[i], values[i*size:(i+1)*size]); err != nil {
			return fmt.Errorf("fill the map of packets: %w", err)
		}
	}
	return nil
}

// What an XDP program answers.
const (
	xdpDrop = 1
	xdpPass = 2
	xdpTX   = 3
)

// fill is the program: it copies n bytes of the next packet of the mix into
// the frame, counts, and sends it out of the device.
func (l *live) fill(n, packets int) asm.Instructions {
	const frame, end, at = asm.R6, asm.R7, asm.R8
	code := asm.Instructions{
		asm.LoadMem(frame, asm.R1, 0, asm.Word),
		asm.LoadMem(end, asm.R1, 4, asm.Word),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, l.at.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R1, asm.R0, 8, asm.DWord), asm.Add.Imm(asm.R1, 1), asm.StoreMem(asm.R0, 8, asm.R1, asm.DWord),
	}
	if n > 0 {
		code = append(code, l.copy(n, packets, frame, end, at)...)
	}
	return append(code, asm.Mov.Imm(asm.R0, xdpTX), asm.Return(), asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol("out"), asm.Return())
}

// copy takes the number of the packet from the memory at R0, moves that on, and
// copies the packet.
func (l *live) copy(n, packets int, frame, end, at asm.Register) asm.Instructions {
	code := asm.Instructions{
		asm.Mov.Reg(asm.R2, frame),
		asm.Add.Imm(asm.R2, int32(14+n)),
		asm.JGT.Reg(asm.R2, end, "out"),
		asm.LoadMem(at, asm.R0, 0, asm.DWord),
		asm.Mov.Reg(asm.R1, at),
		asm.Add.Imm(asm.R1, 1),
		asm.JLT.Imm(asm.R1, int32(packets), "keep"),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord).WithSymbol("keep"),
		asm.StoreMem(asm.RFP, -4, at, asm.Word),
		asm.LoadMapPtr(asm.R1, l.mix.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
	}
	for off := 0; off < n; {
		size := word(n - off)
		code = append(code, asm.LoadMem(asm.R1, asm.R0, int16(off), size), asm.StoreMem(frame, int16(14+off), asm.R1, size))
		off += size.Sizeof()
	}
	return code
}

// word is the largest size that fits into n bytes.
func word(n int) asm.Size {
	switch {
	case n >= 8:
		return asm.DWord
	case n >= 4:
		return asm.Word
	case n >= 2:
		return asm.Half
	}
	return asm.Byte
}

func (l *live) flush() int { return 0 }

func (l *live) close() {
	for _, m := range []*ebpf.Map{l.mix, l.at} {
		if m != nil {
			m.Close()
		}
	}
	if l.prog != nil {
		l.prog.Close()
	}
}

// liveWhy says why the packets cannot be sent as live frames to d; nil if they
// can.
func liveWhy(d netns.Device, raw [][]byte) error {
	switch {
	case d.Name == "lo":
		return errors.New("the loopback has no far end")
	case !d.Polled:
		return errors.New("the far end of the wire is not polled")
	case 14+len(raw[0]) > liveFrame:
		return fmt.Errorf("packets of %d bytes are longer than %d", len(raw[0]), liveFrame-14)
	}
	for _, ip := range raw {
		if len(ip) != len(raw[0]) {
			return errors.New("the packets are of several sizes")
		}
	}
	return liveProbe(d)
}

// liveProbe runs a program that drops its frame, so nothing is sent.
func liveProbe(d netns.Device) error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "headroom_probe", Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpDrop), asm.Return()}})
	if err != nil {
		return fmt.Errorf("load an XDP program: %w", err)
	}
	l := &live{prog: p, device: d, frame: make([]byte, 64)}
	defer l.close()
	if _, _, err := l.send(1); err != nil {
		return fmt.Errorf("send live frames (Linux 5.18): %w", err)
	}
	return nil
}
