import { Link } from "react-router";
import { Empty } from "../shown";

export function MissingPage() {
  return (
    <Empty title="There is no such page">
      Go to the <Link to="/">fleet</Link>, the <Link to="/queues">queues</Link> or the <Link to="/jobs">jobs</Link>.
    </Empty>
  );
}
