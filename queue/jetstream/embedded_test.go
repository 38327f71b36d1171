package jetstream_test

import (
	"testing"

	"headroom/queue"
	"headroom/queue/jetstream"
	"headroom/queue/queuetest"
)

func embedded(t testing.TB, o queue.Options) queue.Queue {
	t.Helper()
	q, err := jetstream.OpenEmbedded(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestEmbedded(t *testing.T) {
	queuetest.Run(t, queuetest.Kind{Open: embedded, Small: 1 << 20, Slow: true})
}
