package api

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"headroom/metric"
)

// staleMarker is the NaN by which Prometheus says that a series has ended.
const staleMarker = 0x7ff0000000000002

// ingestRemote takes Prometheus' remote-write 1.0: a snappy block of a
// WriteRequest. As that protocol wants it, a request of which a part was not
// taken is answered with 400, so that the sender tells of it and goes on.
func (a *API) ingestRemote(w http.ResponseWriter, r *http.Request) error {
	if strings.Contains(r.Header.Get("Content-Type"), "io.prometheus.write.v2") {
		return refuse(http.StatusUnsupportedMediaType, "use protobuf_message: prometheus.WriteRequest", "remote-write 2.0 is not taken here")
	}
	if r.Header.Get("Content-Encoding") != "snappy" {
		return refuse(http.StatusUnsupportedMediaType, "", "remote-write comes as Content-Encoding: snappy")
	}
	return a.receive(w, r, func(in *intake, body io.Reader) error {
		msg, err := whole(body)
		if err != nil {
			return bodyError(err)
		}
		if err := in.writeRequest(msg); err != nil {
			return err
		}
		in.partly = http.StatusBadRequest
		return nil
	})
}

var errWire = errors.New("not a WriteRequest")

// eachField calls f for each field of a message; f gets the bytes of
// length-delimited fields and the bits of fixed and variable ones.
func eachField(msg []byte, f func(num protowire.Number, typ protowire.Type, data []byte, bits uint64) error) error {
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return errWire
		}
		msg = msg[n:]
		var data []byte
		var bits uint64
		switch typ {
		case protowire.BytesType:
			data, n = protowire.ConsumeBytes(msg)
		case protowire.VarintType:
			bits, n = protowire.ConsumeVarint(msg)
		case protowire.Fixed64Type:
			bits, n = protowire.ConsumeFixed64(msg)
		default:
			n = protowire.ConsumeFieldValue(num, typ, msg)
		}
		if n < 0 {
			return errWire
		}
		msg = msg[n:]
		if err := f(num, typ, data, bits); err != nil {
			return err
		}
	}
	return nil
}

// writeRequest takes each series of a request. Metadata is passed over.
func (in *intake) writeRequest(msg []byte) error {
	i := 0
	err := eachField(msg, func(num protowire.Number, typ protowire.Type, data []byte, _ uint64) error {
		if num != 1 || typ != protowire.BytesType {
			return nil
		}
		i++
		return in.timeSeries(i-1, data)
	})
	if err != nil {
		return &fault{error: err, status: http.StatusBadRequest}
	}
	return nil
}

// timeSeries takes one series: its labels first, then its samples, in
// whatever order they lie.
func (in *intake) timeSeries(i int, msg []byte) error {
	if taken := in.plainSeries(i, msg); taken {
		return nil
	}
	t := append(in.text[:0], in.host...)
	t = append(t, 1)
	samples, other := 0, 0
	err := eachField(msg, func(num protowire.Number, typ protowire.Type, data []byte, _ uint64) error {
		switch {
		case typ != protowire.BytesType:
		case num == 1:
			t = append(binary.AppendUvarint(append(t, labelTag), uint64(len(data))), data...)
		case num == 2:
			samples++
		case num == 4:
			other++
		}
		return nil
	})
	in.text = t
	if err != nil {
		return err
	}
	if other > 0 {
		in.reject(i, -1, "native histograms are not taken")
	}
	if samples == 0 {
		return nil
	}
	s, why := in.remoteSeries(t, msg)
	k := -1
	return eachField(msg, func(num protowire.Number, typ protowire.Type, data []byte, _ uint64) error {
		if num != 2 || typ != protowire.BytesType {
			return nil
		}
		k++
		return in.sample(i, k, s, why, data)
	})
}

func (in *intake) sample(i, k int, s *metric.Series, why string, msg []byte) error {
	var at int64
	var bits uint64
	err := eachField(msg, func(num protowire.Number, typ protowire.Type, _ []byte, b uint64) error {
		switch {
		case num == 1 && typ == protowire.Fixed64Type:
			bits = b
		case num == 2 && typ == protowire.VarintType:
			at = int64(b)
		}
		return nil
	})
	if err != nil {
		return err
	}
	in.remotePoint(i, k, s, why, at, bits)
	return nil
}

// remotePoint takes one point. What is no number is part of a healthy
// Prometheus (a quantile of nothing is NaN) and passed over: a 400 for it
// would have all of the request count as failed over there.
func (in *intake) remotePoint(i, k int, s *metric.Series, why string, at int64, bits uint64) {
	v := math.Float64frombits(bits)
	switch {
	case bits == staleMarker:
		in.Stale++
		return
	case v-v != 0:
		in.Odd++
		return
	}
	if why == "" {
		why = in.point(s, at, v)
	}
	if why != "" {
		in.reject(i, k, why)
	}
}

// remoteSeries finds a series by its labels as they were sent, or makes it.
func (in *intake) remoteSeries(t, msg []byte) (*metric.Series, string) {
	if s := in.spelled(t); s != nil {
		return s, ""
	}
	s := in.book.older(t)
	if s == nil {
		name, ls, err := remoteLabels(msg)
		if err != nil {
			return nil, err.Error()
		}
		var why string
		if s, why = in.withHost(name, ls); why != "" {
			return nil, why
		}
	}
	return in.admit(s, t)
}

// remoteLabels reads the labels; a series without host gets that of its
// instance.
func remoteLabels(msg []byte) (name string, ls []metric.Label, err error) {
	host, instance := false, ""
	err = eachField(msg, func(num protowire.Number, typ protowire.Type, data []byte, _ uint64) error {
		if num != 1 || typ != protowire.BytesType {
			return nil
		}
		var l metric.Label
		err := eachField(data, func(num protowire.Number, typ protowire.Type, data []byte, _ uint64) error {
			switch {
			case typ != protowire.BytesType:
			case !utf8.Valid(data):
				return errors.New("a label is not UTF-8 text")
			case num == 1:
				l.Name = string(data)
			case num == 2:
				l.Value = string(data)
			}
			return nil
		})
		switch {
		case err != nil:
			return err
		case l.Name == "__name__":
			name = l.Value
			return nil
		case l.Name == "host":
			host = host || l.Value != ""
		case l.Name == "instance":
			instance = l.Value
		}
		if ls = append(ls, l); len(ls) > 4*metric.MaxLabels {
			return errors.New("far too many labels")
		}
		return nil
	})
	if !host && instance != "" {
		if h, _, err := net.SplitHostPort(instance); err == nil && h != "" {
			instance = h
		}
		ls = append(ls, metric.Label{Name: "host", Value: instance})
	}
	return name, ls, err
}
