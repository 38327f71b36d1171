package api

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"headroom/metric"
	"headroom/queue"
)

// BatchType is the content type of batches in their own encoding, each behind
// its length as an unsigned varint: what agents send.
const BatchType = "application/vnd.headroom.batch"

// maxFrames is how many batches one request may bring.
const maxFrames = 1000

// ingestBatches takes encoded batches. Each stands for itself: one that is
// broken is rejected by its place, the others are taken.
func (a *API) ingestBatches(w http.ResponseWriter, r *http.Request) error {
	if t := r.Header.Get("Content-Type"); t != BatchType {
		return refuse(http.StatusUnsupportedMediaType, "send Content-Type: "+BatchType, "content type %.60q is not taken here", t)
	}
	return a.receive(w, r, func(in *intake, body io.Reader) error {
		err := in.frames(bufio.NewReaderSize(body, 64<<10))
		in.Look = a.heard(in.origin)
		return err
	})
}

// frames reads each batch and puts it. The end of the body within a batch is
// an error: the sender was cut off.
func (in *intake) frames(body *bufio.Reader) error {
	for i := 0; ; i++ {
		n, err := binary.ReadUvarint(body)
		if errors.Is(err, io.EOF) {
			if i == 0 {
				return refuse(http.StatusBadRequest, "", "the body holds no batch")
			}
			return nil
		}
		if err != nil {
			return bodyError(err)
		}
		if n > queue.MaxMessage || i == maxFrames {
			return refuse(http.StatusRequestEntityTooLarge, "", "batch %d has %d bytes; at most %d, and %d batches, are taken", i, n, queue.MaxMessage, maxFrames)
		}
		data := make([]byte, n)
		if _, err := io.ReadFull(body, data); err != nil {
			return bodyError(fmt.Errorf("batch %d: %w", i, err))
		}
		in.frame(i, data)
		if in.b.puts.failed() {
			return nil // done tells why
		}
	}
}

func (in *intake) frame(i int, data []byte) {
	b, err := in.Decoder.Decode(data)
	if err != nil {
		in.refuseWhole(i, err.Error())
		return
	}
	if len(b.Origin) > metric.MaxOrigin {
		in.refuseWhole(i, fmt.Sprintf("batch %s: origin of %d bytes", b.ID, len(b.Origin)))
		return
	}
	in.origin = b.Origin
	if whole := in.sift(i, b); !whole || len(data) > metric.MaxBatchBytes {
		data = nil // it is encoded anew
	}
	if b.Len() == 0 {
		in.partly = http.StatusBadRequest
		return
	}
	if in.show {
		in.Hub.Publish(b)
		return
	}
	in.b.puts.sendWhole(b, data)
}

// refuseWhole rejects a batch of which nothing is taken. The answer is 400
// then, though others were taken: the sender tries each by itself and sets the
// bad one aside.
func (in *intake) refuseWhole(i int, why string) {
	in.reject(i, -1, why)
	in.partly = http.StatusBadRequest
}

// sift takes out of a batch what is not taken; whole says that nothing was.
func (in *intake) sift(i int, b *metric.Batch) (whole bool) {
	whole = true
	rows := b.Rows[:0]
	n := 0
	for _, r := range b.Rows {
		first := n
		n += len(r.Points)
		if why := in.rowFault(r); why != "" {
			for k := range r.Points {
				in.reject(i, first+k, why)
			}
			whole = false
			continue
		}
		good := r.Points[:0]
		for k, p := range r.Points {
			if why := in.Limits.Window.Why(p, in.now); why != "" {
				in.reject(i, first+k, why)
				whole = false
				continue
			}
			good = append(good, p)
		}
		if len(good) > 0 {
			rows = append(rows, metric.Row{Series: r.Series, Points: good})
		}
	}
	b.Rows = rows
	return whole
}

// rowFault says why a series is not taken.
func (in *intake) rowFault(r metric.Row) string {
	if r.Series.Get("host") == "" {
		return "series " + clip(r.Series.Key()) + " has no label host"
	}
	if in.book.met(r.Series.ID()) {
		return ""
	}
	if err := in.book.admit(r.Series, nil, in.by); err != nil {
		return err.Error()
	}
	return ""
}

func clip(s string) string { return metric.Clean(s[:min(len(s), 120)]) }
