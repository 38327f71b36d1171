package main

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain lets this program be the child that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Fprintln(os.Stderr, child(context.Background(), dir, os.Getenv(childKind), os.Getenv(childRun)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Nothing that was acknowledged is lost when the process is killed.
func TestKills(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		k, err := killMany(t.Context(), self, t.TempDir(), kind, 15)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(k)
		if k.Acked < 100 {
			t.Errorf("%s: only %d messages were acknowledged: too few to tell", kind, k.Acked)
		}
		if k.Lost+k.Phantom+k.Altered > 0 || k.SaidLost > 0 {
			t.Errorf("%s: %+v", kind, k)
		}
	}
}
