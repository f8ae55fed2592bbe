"""Alert rules and dashboards for the metrics of a hub, and the files that Prometheus and Grafana read."""
