package peer

import (
	"errors"
	"testing"
	"time"
)

// A silent host can be forgotten, also over a restart; it is back when it
// speaks.
func TestForget(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	b := NewBook(Options{Own: "here", Now: clock})
	tell := func(b *Book, host string) {
		t.Helper()
		body, err := Encode(Document{Kind: Gaps, Host: host, At: now})
		if err != nil {
			t.Fatal(err)
		}
		d, err := Decode(body)
		if err == nil {
			err = b.Put(d, body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tell(b, "db2")
	tell(b, "db3")
	kept := b.Unkept()
	b.IsKept(kept)
	if err := b.Forget("db2", now); !errors.Is(err, ErrSpeaks) {
		t.Fatalf("of one that speaks: %v", err)
	}
	if err := b.Forget("here", time.Time{}); !errors.Is(err, ErrSpeaks) {
		t.Fatalf("of the machine itself: %v", err)
	}
	heard := now
	now = now.Add(3 * time.Minute)
	if err := b.Forget("db2", time.Time{}); err != nil {
		t.Fatal(err)
	}
	gone := func(b *Book, what string) {
		t.Helper()
		if _, there := b.Host("db2"); there || !b.Forgotten("db2", heard) {
			t.Errorf("%s: it is remembered", what)
		}
		if hosts := b.Hosts(); len(hosts) != 1 || hosts[0].Name != "db3" {
			t.Errorf("%s: %+v", what, hosts)
		}
	}
	gone(b, "at once")
	if b.Forgotten("db3", heard) || b.Forgotten("db2", now.Add(time.Second)) {
		t.Error("another host, or one that spoke since, counts as forgotten")
	}

	marks := b.Unkept()
	if len(marks) != 1 || marks[0].Host != "db2" {
		t.Fatalf("%+v is to be kept", marks)
	}
	b.IsKept(marks)
	if again := b.Unkept(); len(again) > 0 {
		t.Errorf("%+v is to be kept again", again)
	}
	next := NewBook(Options{Own: "here", Now: clock})
	next.Restore(append(kept, marks...))
	gone(next, "after a restart")
	if list := next.Unkept(); len(list) > 0 {
		t.Errorf("%+v is to be kept, after a restart", list)
	}

	now = now.Add(time.Minute)
	tell(next, "db2")
	if _, there := next.Host("db2"); !there || next.Forgotten("db2", heard) {
		t.Error("it speaks again and is not listed")
	}
	third := NewBook(Options{Own: "here", Now: clock})
	third.Restore(append(append(kept, marks...), next.Unkept()...))
	if _, there := third.Host("db2"); !there {
		t.Error("what it told after it was forgotten is lost by a restart")
	}
	now = now.Add(15 * 24 * time.Hour)
	if err := next.Forget("db9", now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _ = next.Hosts(); len(next.forgotten) != 1 {
		t.Errorf("%d hosts are forgotten still", len(next.forgotten))
	}
}
