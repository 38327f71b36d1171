package api

import "encoding/binary"

// The first byte of a label and of a sample in a TimeSeries, and of a sample's
// two fields.
const (
	labelTag  = 1<<3 | 2
	sampleTag = 2<<3 | 2
	valueTag  = 1<<3 | 1
	timeTag   = 2 << 3
)

// plainSeries takes a series that is laid out as senders do it: its labels,
// then its samples, each of a value and a time. It does what timeSeries does,
// at a third of the cost; taken is false, and nothing was done, where the
// series is laid out otherwise.
func (in *intake) plainSeries(i int, msg []byte) (taken bool) {
	labels := plainFields(msg, labelTag)
	if labels == len(msg) || plainFields(msg[labels:], sampleTag) != len(msg)-labels {
		return false
	}
	samples := msg[labels:]
	for rest := samples; len(rest) > 0; {
		n := 2 + int(rest[1])
		if _, _, ok := plainSample(rest[2:n]); !ok {
			return false
		}
		rest = rest[n:]
	}
	in.text = append(append(append(in.text[:0], in.host...), 1), msg[:labels]...)
	s, why := in.remoteSeries(in.text, msg)
	for k := 0; len(samples) > 0; k++ {
		n := 2 + int(samples[1])
		bits, at, _ := plainSample(samples[2:n])
		in.remotePoint(i, k, s, why, at, bits)
		samples = samples[n:]
	}
	return true
}

// plainFields is how many bytes the fields with a tag take that a message
// begins with, as far as each has less than 128 bytes.
func plainFields(msg []byte, tag byte) int {
	i := 0
	for i+1 < len(msg) && msg[i] == tag && msg[i+1] < 0x80 && i+2+int(msg[i+1]) <= len(msg) {
		i += 2 + int(msg[i+1])
	}
	return i
}

// plainSample reads a value and a time, in this order; what is 0 is left out.
func plainSample(msg []byte) (bits uint64, at int64, ok bool) {
	if len(msg) >= 9 && msg[0] == valueTag {
		bits, msg = binary.LittleEndian.Uint64(msg[1:]), msg[9:]
	}
	if len(msg) == 0 {
		return bits, 0, true
	}
	t, n := binary.Uvarint(msg[1:])
	return bits, int64(t), msg[0] == timeTag && n == len(msg)-1
}
