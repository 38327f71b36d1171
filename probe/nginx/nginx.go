// Package nginx reads what nginx's configuration says of its status page and
// its access logs, and what the two tell. It only ever reads.
package nginx

// Usual is where the configuration is on most machines.
const Usual = "/etc/nginx/nginx.conf"

// Name is what a server is called by its configuration file: "nginx" at the
// usual place, else the file itself.
func Name(conf string) string {
	if conf == Usual {
		return "nginx"
	}
	return conf
}

// File is the configuration file of the server of a name.
func File(name string) string {
	if name == "nginx" || name == "" {
		return Usual
	}
	return name
}
