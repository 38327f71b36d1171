package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/fail"
)

func TestParseDSNTakesWhatLibpqTakes(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, more := range []string{
		"gssencmode=disable", "gssencmode=prefer", "gssdelegation=0", "keepalives=1 keepalives_idle=30 keepalives_interval=5 keepalives_count=3",
		"tcp_user_timeout=1000", "fallback_application_name=x", "load_balance_hosts=disable", "sslcompression=0", "client_encoding=auto",
		"ssl_min_protocol_version=TLSv1.2", "requirepeer=postgres", "sslcrl=/nowhere", "hostaddr=127.0.0.1",
	} {
		cfg, err := ParseDSN("host=/run/postgresql user=a " + more)
		if err != nil {
			t.Errorf("%s: %v", more, err)
			continue
		}
		for name, v := range cfg.RuntimeParams {
			if name != "client_encoding" || v != "UTF8" {
				t.Errorf("%s: the server is sent %s=%s", more, name, v)
			}
		}
	}
	for dsn, why := range map[string]string{
		"host=h gssencmode=require": "gssencmode=require", "host=h sslcrl=x": "sslcrl", "replication=1": "replication",
		"hostaddr=nowhere": "not an address", "host=a,b hostaddr=127.0.0.1": "could not match", "ssl_min_protocol_version=3": "SSL protocol version",
		"port=abc": "port", "host='x": "quoted", "postgres://u:geheim@h:99999/x": "port", "service=none": "service",
	} {
		_, err := ParseDSN(dsn)
		if err == nil || fail.Code(err) != fail.Usage || !strings.Contains(err.Error(), why) || fail.HintOf(err) == "" || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v, status %d, hint %q", dsn, err, fail.Code(err), fail.HintOf(err))
		}
	}
}

func TestParseDSNFindsItsWay(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, dsn := range []string{"my db's", `postgresql:///my%20db's`, `dbname='my db\'s'`} {
		if cfg, err := ParseDSN(dsn); err != nil || cfg.Database != "my db's" {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	for _, dsn := range []string{"hostaddr=127.0.0.1 port=7", "postgresql:///x?hostaddr=127.0.0.1&port=7", "host=/tmp hostaddr=127.0.0.1 port=7"} {
		if cfg, err := ParseDSN(dsn); err != nil || cfg.Host != "127.0.0.1" || cfg.Port != 7 {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	cfg, err := ParseDSN("host=name.invalid,other.invalid hostaddr=127.0.0.1,::1 sslmode=verify-full ssl_min_protocol_version=TLSv1.3")
	must(t, err)
	if at, err := cfg.LookupFunc(t.Context(), "other.invalid"); err != nil || len(at) != 1 || at[0] != "::1" || cfg.TLSConfig.ServerName != "name.invalid" || cfg.TLSConfig.MinVersion != 0x304 {
		t.Errorf("hostaddr beside host: %v, %v, %+v", at, err, cfg.TLSConfig)
	}
	etc := t.TempDir()
	must(t, os.WriteFile(filepath.Join(etc, "pg_service.conf"), []byte("[mine]\nhost=h\nport=7\nkeepalives=1\n"), 0o644))
	t.Setenv("PGSYSCONFDIR", etc)
	for _, dsn := range []string{"service=mine", "postgresql:///?service=mine"} {
		if cfg, err := ParseDSN(dsn); err != nil || cfg.Host != "h" || cfg.RuntimeParams["keepalives"] != "" {
			t.Errorf("%s in the system's file: %v", dsn, err)
		}
	}
}

func TestSeveralHostsAreAllNamed(t *testing.T) {
	l := Open(Options{DSN: "host=127.0.0.1,127.0.0.2 port=1,2 user=a", WithPG: true})
	defer l.Close()
	if err := l.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "at 127.0.0.1:1, 127.0.0.2:2 as a") || strings.Contains(err.Error(), "\n") {
		t.Errorf("ping = %v", err)
	}
}
