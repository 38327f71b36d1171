package queue_test

import (
	"testing"

	"headroom/queue"
	"headroom/queue/queuetest"
)

func openLog(t testing.TB, o queue.Options) queue.Queue {
	t.Helper()
	q, err := queue.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestLog(t *testing.T) {
	queuetest.Run(t, queuetest.Kind{Open: openLog, Small: 1 << 20})
}
