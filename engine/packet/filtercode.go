package packet

import (
	"math/bits"

	"github.com/cilium/ebpf/asm"
)

// What a tc filter answers.
const (
	tcPass = 0
	tcDrop = 2
)

// code puts the program together: look at the packet, find its source, then
// count and drop, or pass.
func (f *Filter) code(at Hook, how Lookup, entries int) asm.Instructions {
	drop, pass := int32(xdpDrop), int32(xdpPass)
	if at == AtClsact {
		drop, pass = tcDrop, tcPass
	}
	var code asm.Instructions
	if how != Every {
		code = append(source(at), f.find(how, entries)...)
	}
	code = append(code,
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, f.counts.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "drop"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), asm.Add.Imm(asm.R1, 1), asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, drop).WithSymbol("drop"), asm.Return())
	if how == Every {
		return code // the kernel refuses a program with parts that nothing leads to
	}
	return append(code, asm.Mov.Imm(asm.R0, pass).WithSymbol("pass"), asm.Return())
}

// Where an IPv4 packet in an Ethernet frame has its source address.
const (
	sourceAt = 14 + 12
	ipEnd    = 14 + 20
)

// source leaves the source address of an IPv4 packet in R7, as it is in the
// packet, and goes to "pass" for any other.
func source(at Hook) asm.Instructions {
	data, end := int16(0), int16(4) // in struct xdp_md
	var code asm.Instructions
	if at == AtClsact {
		data, end = 76, 80 // in struct __sk_buff
		// What a packet socket sent may lie in pages beyond the first part.
		code = asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R2, ipEnd), asm.FnSkbPullData.Call(), asm.Mov.Reg(asm.R1, asm.R6)}
	}
	return append(code,
		asm.LoadMem(asm.R2, asm.R1, data, asm.Word), asm.LoadMem(asm.R3, asm.R1, end, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2), asm.Add.Imm(asm.R4, ipEnd),
		asm.JGT.Reg(asm.R4, asm.R3, "pass"),
		asm.LoadMem(asm.R5, asm.R2, 12, asm.Half), asm.HostTo(asm.BE, asm.R5, asm.Half),
		asm.JNE.Imm(asm.R5, 0x0800, "pass"),
		asm.LoadMem(asm.R7, asm.R2, sourceAt, asm.Word))
}

// find goes on if the address in R7 is in the set, else to "pass".
func (f *Filter) find(how Lookup, entries int) asm.Instructions {
	if how == Range {
		return f.bisect(entries)
	}
	code := asm.Instructions{asm.StoreMem(asm.RFP, -4, asm.R7, asm.Word), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4)}
	if how == LPM {
		code = append(code, asm.StoreImm(asm.RFP, -8, 32, asm.Word), asm.Add.Imm(asm.R2, -4))
	}
	return append(code, asm.LoadMapPtr(asm.R1, f.set.FD()), asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, "pass"))
}

// bisect looks for the last range that begins at or before the address. R8 is
// the best so far, R9 the one in question. A step takes its turn by arithmetic
// instead of a jump: the kernel follows every way through a program before it
// takes it, and 20 jumps make a million.
func (f *Filter) bisect(entries int) asm.Instructions {
	read := func(reg asm.Register) asm.Instructions {
		return asm.Instructions{asm.StoreMem(asm.RFP, -4, reg, asm.Word), asm.LoadMapPtr(asm.R1, f.set.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4), asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "pass"), asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord)}
	}
	code := asm.Instructions{asm.HostTo(asm.BE, asm.R7, asm.Word), asm.Mov.Imm(asm.R8, 0)}
	for step := int32(padded(entries)) / 2; step > 0; step /= 2 {
		code = append(append(code, asm.Mov.Reg(asm.R9, asm.R8), asm.Add.Imm(asm.R9, step)), read(asm.R9)...)
		code = append(code, asm.RSh.Imm(asm.R1, 32), // where it begins
			asm.Mov.Reg(asm.R2, asm.R7), asm.Sub.Reg(asm.R2, asm.R1), asm.ArSh.Imm(asm.R2, 63), asm.Xor.Imm(asm.R2, -1), // all ones unless that is after the address
			asm.And.Imm(asm.R2, step), asm.Add.Reg(asm.R8, asm.R2))
	}
	return append(append(code, read(asm.R8)...),
		asm.Mov.Reg(asm.R2, asm.R1), asm.RSh.Imm(asm.R2, 32), asm.JGT.Reg(asm.R2, asm.R7, "pass"), // begins after it
		asm.LSh.Imm(asm.R1, 32), asm.RSh.Imm(asm.R1, 32), asm.JGT.Reg(asm.R7, asm.R1, "pass")) // ends before it
}

// padded is the size of the array that bisection goes over: a power of two.
func padded(entries int) int { return 1 << bits.Len(uint(entries-1)) }
