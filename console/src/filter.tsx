import { TextInput } from "@mantine/core";
import { useEffect, useRef, useState } from "react";

/** A field that asks the hub once its text rests, not at each key. */
export function Filter({
  name,
  value,
  set,
}: {
  name: string;
  value: string;
  set: (name: string, value: string) => void;
}) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const latest = useRef(set);
  latest.current = set;
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => latest.current(name, text.trim()), 300);
    return () => clearTimeout(timer);
  }, [text, value, name]);
  return (
    <TextInput
      label={name[0]?.toUpperCase() + name.slice(1)}
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
    />
  );
}
